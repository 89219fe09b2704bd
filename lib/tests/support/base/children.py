"""Processes of this machine: which run, whose they are, and whether they end."""

import contextlib
import time
from pathlib import Path

import psutil
import pytest

with_processes = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here to see processes in")


def running() -> set[int]:
    """Those that have not ended; one that nobody waited for has."""
    over = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return {process.pid for process in psutil.process_iter(["status"]) if process.info["status"] not in over}


def children(pid: int) -> tuple[set[int], set[int]]:
    """The workers that a process has started, and what else it has, such as the process of Python's own that clears up."""
    workers, others = set(), set()
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since
            (workers if any("spawn_main" in word for word in child.cmdline()) else others).add(child.pid)
    return workers, others


def ended(pids: set[int]) -> bool:
    """Have they all, at the latest in two minutes?"""
    patience = time.monotonic() + 120
    while (alive := pids & running()) and time.monotonic() < patience:
        time.sleep(0.02)
    return not alive
