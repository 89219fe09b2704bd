"""The files whose tests take longest, with --slowest-files=N; a plugin of pytest, named in conftest.py."""

from collections import Counter


def pytest_addoption(parser):
    parser.addoption("--slowest-files", metavar="N", type=int, default=0, help="list the N files that take longest")


def pytest_terminal_summary(terminalreporter, config):
    seconds, tests = Counter(), Counter()
    for report in (r for reports in terminalreporter.stats.values() for r in reports if hasattr(r, "duration")):
        file = report.nodeid.partition("::")[0]
        seconds[file] += report.duration
        tests[file] += report.when == "call"
    for file, time in seconds.most_common(config.option.slowest_files):
        terminalreporter.write_line(f"{time:6.1f} s {tests[file]:5} tests  {file}")
