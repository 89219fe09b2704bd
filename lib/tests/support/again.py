"""What a second run leaves out, with --again: tests that what the first one kept cannot touch; a plugin of pytest.

.ci/run has just run all of them, from an empty cache. What is kept are images, objects, rows of grids and this machine's times;
and there is now the book that `make book` built. So every test that compiles, counts, times or looks at a page's content
runs again. Those in these files build small books of their own, start processes, ask the emulator itself, or try out what
scripts and menus do, which is the same in any book.
"""

FILES = frozenset(
    "test_accessibility test_failed_builds test_jobs test_redirects test_stepper_page test_stopped_builds test_unicorn_behaviour"
    " test_unicorn_counting test_unicorn_memory test_weight".split()
)
#: One tree gives the same bytes in any process: .ci/run compares two whole books.
DETERMINISM = frozenset(
    (
        "test_another_process_says_the_same",
        "test_charts_are_the_same_bytes_in_every_process",
        "test_two_processes_give_identical_rows",
    )
)


def pytest_addoption(parser):
    parser.addoption("--again", action="store_true", help="leave out what cannot end in another way the second time")


def pytest_collection_modifyitems(config, items):
    if not config.option.again:
        return
    left = [item for item in items if item.path.stem in FILES or item.name in DETERMINISM]
    config.hook.pytest_deselected(items=left)
    kept = set(items) - set(left)
    items[:] = [item for item in items if item in kept]
