"""What no test computes again everywhere: counts of kernels, which need their images, times of machines, and published figures.

A quiet change of one is seen here. A number for each group, and no list of files or lines: one that is meant is one line to write,
behind what `git diff data/` shows.
"""

import hashlib

import pytest

from support import ROOT

#: What is measured or copied -> the beginning of the checksum of all its bytes.
MEASURED = {
    "booted/*.json": "baab52d9bded",
    "built/*.json": "5d754b8efb20",
    "bpf-trampolines.json": "c71f8beaa56c",
    "function-sizes.yml": "66b9ecd85a8d",
    "kernel-*.json": "dfb602b8e450",
    "kernels/*.json": "a941f1ee7ee4",
    "native/*.json": "87baff4984e7",
    "published.csv": "9d6a0de7d17f",
}


def digest(pattern: str) -> str:
    """Of the files' names and bytes, in order."""
    found = hashlib.sha256()
    for path in sorted((ROOT / "data").glob(pattern)):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:12]


@pytest.mark.parametrize("pattern", MEASURED)
def test_what_was_measured_is_as_it_was_written(pattern):
    assert digest(pattern) == MEASURED[pattern], f"read `git diff data/`: if it is meant, {pattern} has {digest(pattern)} now"
