"""Settings for all tests."""

import gc
import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["browser", "shuffled", "slowest", "times"]

# The same examples in every run, so that a red test is red for everybody; `make fuzz` looks for new ones.
settings.register_profile("tramplab", max_examples=200, deadline=None, derandomize=True)
settings.register_profile("fuzz", max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("tramplab")


#: Under xdist the tests of a group go to one worker, so that what they share and takes long is made once: the verdicts on all
#: claims, kernels with poisoned registers, and a small book.
GROUPS = {"claims": "verdicts", "figures": "verdicts", "choosing": "choosing", "redirects": "redirects"}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """By files and not by marks, which xdist 3.8 loses under pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling

    class Grouped(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return GROUPS.get(Path(nodeid.partition("::")[0]).stem.removeprefix("test_"), nodeid)

    return Grouped(config, log)


def pytest_configure(config):
    """Rows of studies are made once for all tests, see lib/tramplab/studies/once.py; workers of xdist inherit the folder."""
    if not hasattr(config, "workerinput"):
        rows = tempfile.TemporaryDirectory(prefix="tramplab-rows-")
        os.environ["TRAMPLAB_ROWS"] = rows.name
        config.add_cleanup(rows.cleanup)


def pytest_collection_finish():
    """Thousands of tests and what they import are here to stay: not looked at again for garbage, a twelfth less time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_terminal_summary(terminalreporter):
    """One line per reason for which tests were skipped, however many they are."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", [])
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} test{'s'[: count > 1]} skipped: {reason}", yellow=True)
