"""What a worker of xdist tells of a test that passes: one report, with the time of all of it; a plugin of pytest.

Set-up and taking down are told where they say more than that they went well. Six messages for each of twelve thousand tests, with
half of which nothing is done, take a fortieth of the time that all tests take.
"""

import os

import pytest
from _pytest.runner import runtestprotocol

IN_A_WORKER = "PYTEST_XDIST_WORKER" in os.environ


def told(reports: list[pytest.TestReport]) -> list[pytest.TestReport]:
    """Those of a test that say something; the time of the others is added to that of its call."""
    heard = [report for report in reports if report.when == "call" or not report.passed]
    for call in (report for report in heard if report.when == "call"):
        call.duration += sum(report.duration for report in reports if report not in heard)
    return heard


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """As pytest does it, but for what is told; None leaves it to pytest."""
    if not IN_A_WORKER:
        return None
    for report in told(runtestprotocol(item, log=False, nextitem=nextitem)):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
