"""Counter and twin flags of a record: how wide, which, and is a site rewritten exactly where the twins differ?"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.ftrace import releases
from tramplab.ftrace.ops import Registered
from tramplab.ftrace.records import BITS, Record
from tramplab.ftrace.site import Site
from tramplab.ftrace.steps import Write
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel

from ...memo import once
from ...shared.every_release import every_release
from . import callbacks, choosing

STEPS, MOST, SEED = 200, 6, 2021
#: Flags that have a twin, and whether what they want is in force with more than one ops as well.
TWINS = {"REGS": True, "TRAMP": True, "DIRECT": False, "CALL_OPS": False}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release and set of twins that differ between the records before and after a change.

    Columns: isa, release, bits (of the counter), full (the count at which one more ops is refused), twins (those that
    differ, "count" standing for ENABLED and whether the counter is above 0; "" if none), cases (records of functions that an
    ops came to or left), rewritten (how many of their sites the plan writes), same (how many of these to the same bytes).
    """
    return pd.DataFrame(every_release(_told_apart))


def _told_apart(isa: str, release: str) -> list[dict[str, object]]:
    found: dict[str, Counter[str]] = {}
    kernel = Kernel(isa, release)
    for twins, rewritten, same in _changes(kernel):
        found.setdefault(twins, Counter()).update(cases=1, rewritten=rewritten, same=same)
    bits = kernel.features["counter_bits"]
    head = {"bits": bits, "full": _full(next(iter(kernel.slowpath.records.values())).site, bits)}
    order = sorted(found, key=lambda twins: (twins.count(" "), twins))
    return [{**head, "twins": twins, **{name: found[twins][name] for name in ("cases", "rewritten", "same")}} for twins in order]


def _changes(kernel: Kernel) -> Iterator[tuple[str, bool, bool]]:
    """Register and unregister at random, and give for every record that is concerned: the twins that differ, whether the plan
    writes its site, and whether it then has the same bytes as before."""
    chance, slowpath = random.Random(SEED), kernel.slowpath
    registered: list[Registered] = []
    for _ in range(STEPS):
        before = {f: (r.flags, kernel.machine.read(r.site.ip, r.site.body - r.site.ip)) for f, r in slowpath.records.items()}
        if registered and (len(registered) == MOST or chance.random() < 0.5):
            ops = registered.pop(chance.randrange(len(registered)))
            steps = slowpath.unregister(ops)
        else:
            ops, steps = slowpath.register(choosing.drawn(kernel, chance, any(o.is_direct for o in registered))[0])
            registered.append(ops)
        to = [step.address for step in steps if isinstance(step, Write)]
        written = {f for f in ops.functions if any(map(slowpath.records[f].site.holds, to))}
        kernel.apply(steps)
        for f in ops.functions:
            record, (flags, held) = slowpath.records[f], before[f]
            same = f in written and kernel.machine.read(record.site.ip, len(held)) == held
            yield differing(flags, record.flags, record.counter_bits), f in written, same


def differing(before: int, after: int, bits: int) -> str:
    """The twins that differ when a change has set what is wanted, and nothing is in force yet: of two flag words, before the
    change and after all was done, for a counter of so many bits.

    >>> on, regs, regs_en = (1 << BITS[name] for name in ("ENABLED", "REGS", "REGS_EN"))
    >>> differing(0, on | 1, 19), differing(on | 1, on | regs | regs_en | 2, 19), differing(on | 2, on | 3, 19)
    ('count', 'REGS', '')
    """

    def has(word: int, name: str) -> bool:
        return bits <= BITS[name] and bool(word >> BITS[name] & 1)

    count = after & ((1 << bits) - 1)
    if bool(count) != has(before, "ENABLED"):
        return "count"
    wanted = {name: has(after, name) and (shared or count == 1) for name, shared in TWINS.items()}
    return " ".join(name for name, want in wanted.items() if want != has(before, f"{name}_EN"))


def _full(site: Site, bits: int) -> int:
    """The count at which a record refuses one more ops: the numbers of ones that a counter can be full of are tried."""
    for count in ((1 << width) - 1 for width in range(1, 32)):
        try:
            Record(site, bits, False, flags=count).check(False)
        except TramplabError:
            return count
    raise TramplabError(f"a counter of {bits} bits takes every number of ops.")


def widths() -> dict[str, int]:
    """The width of the counter in all known releases that have the same, by these: "up to v6.2", "in v6.3", "since v6.4". It is
    the same on every ISA."""
    isa = next(iter(ISAS.values()))
    bits = {release: releases.features(isa, release, {})["counter_bits"] for release in releases.known()}
    spans: dict[int, list[str]] = {}
    for release, width in bits.items():
        spans.setdefault(width, []).append(release)
    by_name = {}
    for width, found in spans.items():
        first, last = found[0] == releases.known()[0], found[-1] == releases.known()[-1]
        span = f"up to {found[-1]}" if first else f"since {found[0]}" if last else f"in {found[0]}"
        by_name[span if first or last or len(found) == 1 else f"from {found[0]} to {found[-1]}"] = width
    return by_name


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: the width of the counter by release, how many ops fill the newest, what a call would then take, how
    many of the sites rewritten got the bytes that they had; and of records whose twins differ, and of others, how many there were
    and how many had their site rewritten."""
    differ, equal = frame[frame["twins"] != ""], frame[frame["twins"] == ""]
    full = int(frame[frame["release"] == releases.LATEST]["full"].iloc[0])
    step = callbacks.numbers(callbacks.rows())["x86_64-further-step"]
    return {
        "bits": ", ".join(f"{width} {span}" for span, width in widths().items()),
        "full": f"{full:,}",
        "full-call-millions": round(full * int(str(step)) / 1e6),
        "rewritten": f"{int(frame['rewritten'].sum()):,}",
        "same": f"{int(frame['same'].sum()):,}",
        "differ": int(differ["cases"].sum()),
        "differ-rewritten": int(differ["rewritten"].sum()),
        "equal": int(equal["cases"].sum()),
        "equal-rewritten": int(equal["rewritten"].sum()),
    }
