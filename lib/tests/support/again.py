"""A second run, from what a first one kept; a plugin of pytest.

--again runs what asks the cache for all there is, and with which another process filled it: images, objects, and the rows that they
lead to. All else has a cache of its own, or none, and cannot end in another way the second time. That two processes make the same
bytes of one tree is shown by .ci/run, which compares whole books.
"""

FILES = frozenset(("test_golden", "test_once", "test_cli"))


def pytest_addoption(parser):
    parser.addoption("--again", action="store_true", help="leave out what cannot end in another way the second time")


def pytest_ignore_collect(collection_path, config):
    """Files that are not asked for are not even read; None leaves the rest to others."""
    return True if config.option.again and collection_path.is_file() and collection_path.stem not in FILES else None
