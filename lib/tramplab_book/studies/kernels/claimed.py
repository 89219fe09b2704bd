"""What Debian's kernels show of claims whose decisive number can be had from an image."""

from __future__ import annotations

from tramplab.vmlinux.results.result import added
from tramplab.vmlinux.saved import saved

from ...publish.claims.verdict import Seen, in_kernels
from ...publish.phrases import isa_name, listed, on_each

LIST = "ftrace_ops_list_func"


def _added(result: dict, hook: str) -> int:
    """Instructions that a hook adds to a call."""
    rows = {row["hook"]: row for row in result["hooks"]}
    return added(rows[hook], rows["none"])["instructions"]


def _runs(result: dict, hook: str, function: str) -> bool:
    """Does a call with this hook go through a function?"""
    row = next(r for r in result["hooks"] if r["hook"] == hook)
    return any(name.split(".")[0].endswith(function) for name in row["symbols"])


def _head() -> str:
    return f"Debian's {next(iter(saved.newest().values()))['kernel']['release'].removeprefix('v')} kernels:"


@in_kernels("r1")
def ops_elsewhere() -> Seen:
    """One ops alone and beside ten on other functions, with the pointer and, where no trampoline is made for an ops, without."""
    names: dict[bool, list[str]] = {True: [], False: []}
    agrees = True
    for result in saved.plain():
        kernel = result["kernel"]
        if kernel["isa"] == "x86_64":
            continue
        pointer = kernel["config"]["DYNAMIC_FTRACE_WITH_CALL_OPS"]
        alone, beside = (_added(result, hook) for hook in ("ops", "ops+10-elsewhere"))
        agrees &= (alone == beside) == pointer
        names[pointer].append(f"{alone} and {beside} on {isa_name(kernel['isa'])} {kernel['release'].removeprefix('v')}")
    return Seen(
        f"Debian's kernels: one ops, alone and beside ten elsewhere, adds with the pointer {listed(names[True])} instructions, "
        f"without it {listed(names[False])}.",
        agrees,
    )


@in_kernels("s5")
def one_and_two() -> Seen:
    """With one ops nothing of the list runs, with two it does."""
    cost = {isa: f"{_added(r, 'ops')} and {_added(r, 'ops:2')}" for isa, r in saved.newest().items()}
    agrees = all(_runs(r, "ops:2", LIST) and not _runs(r, "ops", LIST) for r in saved.newest().values())
    return Seen(f"{_head()} one ops and two add {on_each(cost, 'instructions')}; {LIST}() runs with two only.", agrees)


@in_kernels("s6")
def both_run() -> Seen:
    """A direct call that shares its function: the check of the run has seen that both were called."""
    found = saved.newest()
    status = {isa: next(row["status"] for row in r["hooks"] if row["hook"] == "direct+ops") for isa, r in found.items()}
    without = [isa for isa in found if status[isa] != "measured"]
    if without:
        return Seen(f"{_head()} a direct call beside an ops could not be measured on {listed(map(isa_name, without))}.", False)
    cost = {isa: _added(r, "direct+ops") for isa, r in found.items()}
    both = f"a direct call and an ops on one function are both called, which adds {on_each(cost, 'instructions')}"
    return Seen(f"{_head()} {both}.", True)


@in_kernels("d1")
def out_of_reach() -> Seen:
    """A direct call out of the site's reach against one in it, in kernels that have both; and those in which all is in reach."""
    both: dict[str, int] = {}
    only: list[str] = []
    agrees = True
    for result in saved.plain():
        kernel, rows = result["kernel"], {row["hook"]: row for row in result["hooks"]}
        near, far = (rows[hook]["status"] == "measured" for hook in ("direct", "direct-far"))
        name = f"{isa_name(kernel['isa'])} {kernel['release'].removeprefix('v')}"
        if near and far:
            both[name] = _added(result, "direct-far") - _added(result, "direct")
        elif near:
            only.append(name)
        agrees &= far or kernel["isa"] != "arm64" or not near
    agrees &= bool(both) and min(both.values()) > 0
    counts = listed(f"{n} on {name}" for name, n in both.items())
    return Seen(
        f"Debian's kernels: out of reach a direct call runs more instructions than in reach, {counts}; nothing is out of reach on "
        f"{listed(only)}.",
        agrees,
    )
