"""The CPU's own counters of a call, and why they are missing where they are."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from .script import COUNTERS


def counts(
    refused: Sequence[int], batches: dict[str, list[list[int]]]
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Hardware counters per call and hook, of each hook's quickest batch, and a sentence for what is not there.

    refused: an errno for each of COUNTERS, 0 where it counts. batches: by hook, [calls, ns wanted, ns counted, counts...].
    """
    absent = {name: code for (name, *_), code in zip(COUNTERS, refused, strict=False) if code}
    names = [name.replace("-", "_") for name, *_ in COUNTERS if name not in absent]
    why = [f"no {', '.join(absent)} counter: {_no_counter(next(iter(absent.values())))}."] if absent else []
    counters, shared = {}, False
    for hooked, every in batches.items():
        shared |= any(counted < wanted for _, wanted, counted, *_ in every)
        calls, _, _, *values = min(every, key=lambda b: b[2])  # of the batch that took the least time
        counters[hooked] = {n: v / calls for n, v in zip(names, values, strict=True)}
    if shared:
        return {}, [
            *why,
            "other programs use the hardware counters too, so ours ran only part of the time and are left out.",
        ]
    return counters, why


def _no_counter(code: int) -> str:
    if code in (errno.EACCES, errno.EPERM):
        try:
            level = Path("/proc/sys/kernel/perf_event_paranoid").read_text("utf-8").strip()
        except OSError:
            level = "unknown"
        return f"they are not permitted (kernel.perf_event_paranoid is {level})"
    if code in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return "this CPU, or the machine it is emulated by, shows none"
    return os.strerror(code)
