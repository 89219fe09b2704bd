"""How much of the machine this process may use: processors and memory, as the system, affinity and control groups say.

psutil and loky read processors, and no control group's limit of memory.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

from ..arguments import whole

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")  # of version 2
MB = 1 << 20


def at_once(megabytes: int, spare: int = 0) -> int:
    """How many processes of so many megabytes each can work at once, at least one: no more than there are processors, and than
    the free memory holds when `spare` megabytes of it are left."""
    megabytes, spare = whole(megabytes, "megabytes", 1), whole(spare, "spare", 0)
    free = memory()
    room = processors() if free is None else min(processors(), (free // MB - spare) // megabytes)
    return max(room, 1)


def processors() -> int:
    """Processors this process may run on; a part of one counts as one."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [_text(group / "cpu.max").split() for group in _groups()]
    return min([usable, *(math.ceil(int(q[0]) / int(q[1])) for q in quotas if q and q[0] != "max")])


def memory() -> int | None:
    """Bytes this process and its children can still take; None where the system does not say."""
    stated = re.search(r"^MemAvailable:\s+(\d+) kB", _text(PROC / "meminfo"), re.MULTILINE)
    free = [int(stated[1]) << 10] if stated else []
    for group in _groups():
        limit, used = _text(group / "memory.max").strip(), _text(group / "memory.current")
        if limit.isdigit() and used:
            files = re.findall(r"^(?:in)?active_file (\d+)", _text(group / "memory.stat"), re.MULTILINE)
            free.append(max(0, int(limit) - int(used) + sum(map(int, files))))  # what files take is given back
    return min(free, default=None)


def _groups() -> Iterator[Path]:
    """The folders of the control group this process is in and of those around it."""
    path = re.search(r"^0::/(.*)$", _text(PROC / "self" / "cgroup"), re.MULTILINE)
    group = GROUPS / path[1] if path else GROUPS
    return (folder for folder in (group, *group.parents) if folder.is_relative_to(GROUPS))


def _text(path: Path) -> str:
    """The text of a file; "" where there is none."""
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""
