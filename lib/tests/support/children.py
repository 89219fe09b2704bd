"""Processes of this machine, as /proc shows them."""

import contextlib
import time
from pathlib import Path

import pytest

with_processes = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here to see processes in")


def processes() -> list[tuple[int, int, str]]:
    """Every process of this machine: its id, its parent's, and its state."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            state, parent = file.read_text("utf-8").rpartition(")")[2].split()[:2]
            found.append((int(file.parent.name), int(parent), state))
    return found


def running() -> set[int]:
    """Those that have not ended; one that nobody waited for has."""
    return {pid for pid, _, state in processes() if state not in "ZX"}


def children(pid: int) -> tuple[set[int], set[int]]:
    """The workers that a process has started, and what else it has, such as the process of Python's own that clears up."""
    found = {child for child, parent, _ in processes() if parent == pid}
    workers = {child for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()}
    return workers, found - workers


def ended(pids: set[int]) -> bool:
    """Have they all, at the latest in two minutes?"""
    patience = time.monotonic() + 120
    while (alive := pids & running()) and time.monotonic() < patience:
        time.sleep(0.05)
    return not alive
