"""Settings for all tests."""

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["browser"]

# The same examples in every run, so that a red test is red for everybody; `make fuzz` looks for new ones.
settings.register_profile("tramplab", max_examples=200, deadline=None, derandomize=True)
settings.register_profile("fuzz", max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("tramplab")


#: Tests that need the rows of most studies, which are made once in a process.
OF_ROWS = {
    f"test_{name}.py" for name in ("choosing", "claims", "figures", "golden", "published", "switching", "unwind")
}


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items):
    """Under xdist, tests that share what takes long to make go to one worker: the book, unless it is built, and rows."""
    for item in items:
        if {"site", "browser", "bases"} & set(getattr(item, "fixturenames", ())) and not os.environ.get(
            "TRAMPLAB_HTML"
        ):
            item.add_marker(pytest.mark.xdist_group("book"))
        elif item.path.name in OF_ROWS:
            item.add_marker(pytest.mark.xdist_group("rows"))


def pytest_terminal_summary(terminalreporter):
    """One line per reason for which tests were skipped, however many they are."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", [])
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} test{'s'[: count > 1]} skipped: {reason}", yellow=True)
