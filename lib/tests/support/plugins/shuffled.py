"""Tests in another order, as no test may need another one to have run before; a plugin of pytest, named in conftest.py.

--shuffle=SEED draws the order of the files, and of the tests in each; PYTEST_ADDOPTS=--shuffle=SEED does for `make test`.
pytest-randomly draws an order in every run, and one in which what shares a fixture is apart.
"""

import random
from collections import defaultdict

import pytest


def pytest_addoption(parser):
    parser.addoption("--shuffle", metavar="SEED", help="draw the order of the tests from this number")


def pytest_report_header(config):
    return f"order of the tests: drawn from {config.option.shuffle}" if config.option.shuffle else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Files stay whole, as what a file sets up is taken down at its end; and pytest, whose turn comes then, puts those tests of a
    file together for which it sets up the same, such as a kernel's image. Every worker of xdist draws the same."""
    if config.option.shuffle:
        draw, files = random.Random(config.option.shuffle), defaultdict(list)
        for item in items:
            files[item.path].append(item)
        for tests in files.values():
            draw.shuffle(tests)
        items[:] = [item for path in draw.sample(list(files), len(files)) for item in files[path]]
