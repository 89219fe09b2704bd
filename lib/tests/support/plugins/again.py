"""A second run, from what a first one kept; a plugin of pytest.

--again runs commands, which ask the cache for what another process filled it with. The rows that images and objects lead to are not
among it: .ci/run compares a whole book that is made of what was kept, with every study's rows, to the one that was made of nothing,
byte by byte. All else has a cache of its own, or none, and cannot end in another way the second time.
"""

FILES = frozenset(("test_memo", "test_cli"))


def pytest_addoption(parser):
    parser.addoption("--again", action="store_true", help="leave out what cannot end in another way the second time")


def pytest_ignore_collect(collection_path, config):
    """Files that are not asked for are not even read; None leaves the rest to others."""
    return True if config.option.again and collection_path.is_file() and collection_path.stem not in FILES else None
