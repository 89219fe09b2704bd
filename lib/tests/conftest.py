"""Settings for all tests."""

import os
import signal
import tempfile
from collections import Counter

from hypothesis import HealthCheck, settings

from tramplab.base.starting import one_thread
from tramplab.emulate.engine import small_pages

_PLUGINS = "again browser caches commands order seeds shuffled times".split()
pytest_plugins = [f"support.plugins.{name}" for name in _PLUGINS]

# The same examples in every run, so that a red test is red for everybody; `make fuzz` looks for new ones.
settings.register_profile("tramplab", max_examples=200, deadline=None, derandomize=True)
settings.register_profile("fuzz", max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("tramplab")


def pytest_configure(config):
    """Rows of studies are made once for all tests and the book that they look at, see lib/tramplab_book/studies/memo.py; workers of
    xdist inherit the folder, and a run may be given one, with rows of the same sources. And Ctrl-C, which tests send, is heard:
    where a shell has started them in the background, what they start would ignore it too."""
    small_pages()
    one_thread()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not os.environ.get("TRAMPLAB_ROWS"):
        rows = tempfile.TemporaryDirectory(prefix="tramplab-rows-")
        os.environ["TRAMPLAB_ROWS"] = rows.name
        config.add_cleanup(rows.cleanup)


def pytest_terminal_summary(terminalreporter):
    """One line per reason for which tests were skipped, however many they are."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", [])
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} test{'s' if count > 1 else ''} skipped: {reason}", yellow=True)
