"""Settings for all tests."""

from collections import Counter

from hypothesis import HealthCheck, settings

pytest_plugins = ["browser"]

# The same examples in every run, so that a red test is red for everybody; `make fuzz` looks for new ones.
settings.register_profile("tramplab", max_examples=200, deadline=None, derandomize=True)
settings.register_profile("fuzz", max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("tramplab")


def pytest_terminal_summary(terminalreporter):
    """One line per reason for which tests were skipped, however many they are."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", [])
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} test{'s'[: count > 1]} skipped: {reason}", yellow=True)
