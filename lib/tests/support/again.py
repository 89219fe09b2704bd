"""What a run leaves out that another one of .ci/run does; a plugin of pytest.

--determinism runs what shows that two processes make the same bytes of one tree. It is left out otherwise: .ci/run has it, and
compares two whole books besides.

--again is for a second run, from what the first one kept: images, objects, rows of grids and this machine's times; and there is
now the book that `make book` built. Whatever is kept was read in the first run, too, since the first test that wants an image makes
it for all that follow. So what runs again is what meets files of another process's: the rooms that keep something, and those that
ask them for all there is: golden tables, command lines, a checkout. FILES of theirs keep nothing, and of the rooms in ONLY these
files ask for all that the others ask for.
"""

ROOMS = frozenset(("base", "build", "checkout", "cli", "grid", "native", "studies"))
FILES = frozenset(("test_jobs", "test_cluster"))
ONLY = {"studies": frozenset(("test_golden", "test_once"))}
DETERMINISM = frozenset(
    (
        "test_another_process_says_the_same",
        "test_charts_are_the_same_bytes_in_every_process",
        "test_two_processes_give_identical_rows",
    )
)


def pytest_addoption(parser):
    parser.addoption("--determinism", action="store_true", help="run also what shows that all processes make the same bytes")
    parser.addoption("--again", action="store_true", help="leave out what cannot end in another way the second time")


def _again(item) -> bool:
    room, file = item.path.parent.name, item.path.stem
    return room in ROOMS and file not in FILES and file in ONLY.get(room, (file,))


def pytest_collection_modifyitems(config, items):
    left = [
        item
        for item in items
        if (config.option.again and not _again(item)) or (not config.option.determinism and item.name in DETERMINISM)
    ]
    config.hook.pytest_deselected(items=left)
    kept = set(items) - set(left)
    items[:] = [item for item in items if item in kept]
