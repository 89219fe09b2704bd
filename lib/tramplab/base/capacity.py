"""How much of the machine this process may use: processors and memory, as the system, affinity and control groups say."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

from .arguments import whole

PROC = Path("/proc")
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
    try:
        usable = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        usable = os.cpu_count() or 1
    return min([usable, *(max(1, math.ceil(quota)) for quota in _quotas())])


def memory() -> int | None:
    """Bytes this process and its children can still take; None where the system does not say."""
    stated = re.search(r"^MemAvailable:\s+(\d+) kB", _text(PROC / "meminfo"), re.MULTILINE)
    free = [int(stated[1]) << 10] if stated else []
    for folder in _groups("memory"):
        limit, used = (_number(folder, *names) for names in (_LIMIT, _USED))
        if limit is not None and used is not None:
            cached = re.findall(r"^(?:total_)?(?:in)?active_file (\d+)", _text(folder / "memory.stat"), re.MULTILINE)
            free.append(max(0, limit - used + sum(map(int, cached[-2:]))))  # what files take is given back
    return min(free, default=None)


# The names of version 2 of control groups and of version 1. There a limit that is none is a very large number, here "max".
_LIMIT = ("memory.max", "memory.limit_in_bytes")
_USED = ("memory.current", "memory.usage_in_bytes")


def _quotas() -> Iterator[float]:
    """The share of each control group that has one, in processors."""
    for folder in _groups("cpu"):
        both = _text(folder / "cpu.max").split() or [_text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        if all(re.fullmatch(r"\d+\s*", part) for part in both):
            yield int(both[0]) / int(both[1])


def _groups(controller: str) -> Iterator[Path]:
    """The folders of the control group this process is in and of those around it, of either version."""
    mounts = [line.split() for line in _text(PROC / "self" / "mountinfo").splitlines()]
    for line in _text(PROC / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        for fields in mounts:
            root, where, kind, options = fields[3], fields[4], fields[fields.index("-") + 1], fields[-1]
            if kind == ("cgroup" if controllers else "cgroup2") and (not controllers or controller in options.split(",")):
                # In a container what is mounted may be the container's own group, under a path of the host.
                inside = path.removeprefix(root.rstrip("/")) if path.startswith(root) else "/"
                group = Path(where) / inside.lstrip("/")
                yield from (f for f in (group, *group.parents) if f.is_relative_to(where))


def _number(folder: Path, *names: str) -> int | None:
    """The number in the first of these files that exists and holds one."""
    contents = [_text(folder / name).strip() for name in names]
    return next((int(text) for text in contents if text.isdigit()), None)


def _text(path: Path) -> str:
    """The text of a file; "" where there is none."""
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""
