"""What runs when, and where under xdist, so that no worker waits for another and all end at the same time; a plugin of pytest.

The book is built first, for the first test that looks at its files. Whatever else looks at it comes last: by then it is there,
and a browser's tests are short and keep every processor busy. What is long, or has to stay in one worker, comes early.
"""

import os
from pathlib import Path

import pytest

#: Under xdist the tests of a group go to one worker, so that what they share and takes long is made once: the verdicts on all
#: claims, kernels with poisoned registers, a cluster, opened kernel images, and small books.
GROUPS = {file: file for file in "test_choosing test_cluster test_command test_redirects test_small_books test_wheels".split()}
GROUPS |= dict.fromkeys(("test_claims", "test_cli_claims", "test_figures", "test_ledger"), "verdicts")
#: The same of the tests of these files that have the same real kernel: its image is opened for them once, in a second.
KERNELS = ("test_hooks_real", "test_image_frames", "test_image_probes", "test_image_races")
#: Files with tests of many seconds, the longest first.
LONG = ("test_claims test_cli_claims test_ledger test_figures test_redirects test_measured test_small_books test_failed_builds"
        " test_choosing test_grid_taken_up test_mutants").split()  # fmt: skip
#: The same of those that look at the built book.
LONG_AT_THE_BOOK = ["test_notebooks", "test_pages", "test_book", "test_weight", "test_register_runs", "test_stepper_page"]


def place(item: pytest.Item) -> tuple[bool, int]:
    """What comes first has the least. In a shuffled order, what is long comes first in any order."""
    late, file = "site" in item.fixturenames, item.path.stem
    long = LONG_AT_THE_BOOK if late else LONG
    at = long.index(file) if file in long else len(long)
    return late, int(at == len(long)) if item.config.option.shuffle else at


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items):
    """After all other plugins, among them the one that shuffles: the order that it draws is kept among equals."""
    result = yield
    looking = (i for i in items if "site" in i.fixturenames and "browser" not in i.fixturenames)
    first = None if os.environ.get("TRAMPLAB_HTML") else next(looking, None)
    items.sort(key=lambda item: (item is not first, place(item)))
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """In the order of the list; groups by files and not by marks, which xdist 3.8 loses under pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling

    class Grouped(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, (_, _, parameters) = Path(nodeid.partition("::")[0]).stem, nodeid.partition("[")
            return f"image[{parameters}" if parameters and file in KERNELS else GROUPS.get(file, nodeid)

    config.option.loadscopereorder = False
    return Grouped(config, log)
