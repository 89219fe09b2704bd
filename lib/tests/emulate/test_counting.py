"""Counts are exact: two meters, a memory hook and the recorded way through the code all tell the same."""

import itertools
from contextlib import contextmanager
from dataclasses import astuple, fields

import pytest

from support.models import python_meter
from tramplab import Direct, Kernel, Ops
from tramplab.base.errors import StepLimit, TramplabError
from tramplab.emulate import decode, machine
from tramplab.emulate.counting.counts import COMPONENTS, Counts
from tramplab.ftrace import releases

ISAS = ("x86_64", "arm64", "riscv64")
RELEASES = tuple(sorted({*releases.shown(), "v6.3", "v6.8"}, key=releases.parse))
every_isa = pytest.mark.parametrize("isa", ISAS)
every_kernel = pytest.mark.parametrize(("isa", "release"), list(itertools.product(ISAS, RELEASES)))

#: Feature needed, and what is attached.
HOOKS = {
    "none": (None, []),
    "ops": (None, [Ops()]),
    "ops-core": (None, [Ops(dynamic=False)]),
    "ops-assist": (None, [Ops(recursion=True, rcu=True)]),
    "ops-observe": (None, [Ops(callback="lab_observe")]),
    "ops-regs": ("regs", [Ops(save="regs")]),
    "ops x2": (None, [Ops(), Ops()]),
    "ops x10": (None, [Ops(), *(Ops(filter=("no_args",)) for _ in range(8)), Ops(notrace=("one_arg",))]),
    "direct": ("direct", [Direct()]),
    "direct-far": ("direct", [Direct(far=True)]),
    "direct+ops": ("direct", [Direct(observe=True), Ops(rcu=True)]),
}
#: Calls of every kind: leaves, memory, stack arguments, nested traced calls, a tail call.
CALLS = ("one_arg", "eight_args", "pointer_args", "calls_others", "tail_call")


@contextmanager
def hooked(k: Kernel, hook: str):
    """The kernel with a hook on all functions."""
    _, requests = HOOKS[hook]
    every = k.functions
    prepared = [
        r if r.filter or isinstance(r, Ops) else type(r)(far=r.far, observe=r.observe, filter=every) for r in requests
    ]
    with k.attached(None, *prepared) as ops:
        yield ops


def hooks_of(k: Kernel) -> list[str]:
    return [name for name, (needs, _) in HOOKS.items() if needs is None or k.features[needs]]


def call(k: Kernel, name: str, **options):
    return k.call(name, *arguments(k, name), **options)


def arguments(k: Kernel, name: str) -> tuple[int, ...]:
    if name == "pointer_args":
        cell = k.machine.stack_top - 4096  # some writable memory that the call's own frames do not reach
        return cell, cell + 8
    return tuple(range(1, 9))[: {"one_arg": 1, "eight_args": 8, "calls_others": 3, "tail_call": 2}[name]]


def total(rows) -> Counts:
    """The sum of rows that have the members of a Counts."""
    return Counts(*map(sum, zip(*rows, strict=True)))


def plus(parts) -> Counts:
    return total(astuple(c) for c in parts)


def decoded(k: Kernel, run) -> dict[int, decode.Instruction]:
    """The instructions that a run executed, from memory as it is now."""
    return {pc: k.machine.instruction_at(pc) for pc in {s.pc for s in run.steps}}


def seen(run, code: dict[int, decode.Instruction]) -> list[tuple[int, ...]]:
    """What each recorded step did, as the members of a Counts, from the recording alone; a branch was taken if the next
    step is not the one behind."""
    out = []
    for s, after in itertools.zip_longest(run.steps, run.steps[1:]):
        loads, stores = ([n for _, n, w in s.accesses if w == kind] for kind in (False, True))
        taken = after is None or after.pc != s.pc + code[s.pc].size
        out.append((1, len(loads), len(stores), sum(loads), sum(stores), int(taken)))
    return out


# --- Static decode against what the memory hook saw


@every_kernel
def test_counts_equal_what_was_seen(isa, release):
    """For every hook and kind of call: what decoding the executed instructions gives is, instruction by instruction and
    in total, what the memory hook reported, and taken branches are the jumps in the sequence of addresses."""
    k = Kernel(isa, release)
    for hook in hooks_of(k):
        with hooked(k, hook):
            for name in CALLS:
                run = call(k, name)
                code = decoded(k, run)
                each = seen(run, code)
                for s, got in zip(run.steps, each, strict=True):
                    a = decode.known_accesses(k.isa, s.pc, code[s.pc].data)
                    assert (a.loads, a.stores, a.load_bytes, a.store_bytes) == got[1:5], (hook, code[s.pc].text)
                    assert all(size <= 8 for _, size, _ in s.accesses)
                assert run.counts.total == total(each), (hook, name)
                for which, parts in (
                    (run.component_of, run.counts.by_component),
                    (run.symbol_of, run.counts.by_symbol),
                ):
                    owner = {pc: which(pc) for pc in code}
                    for part, c in parts.items():
                        assert c == total(e for s, e in zip(run.steps, each, strict=True) if owner[s.pc] == part), (
                            hook,
                            name,
                            part,
                        )


@every_kernel
def test_the_parts_add_up(isa, release):
    """Components and symbols both sum to the total; entry, exit, the function's own body and the callbacks around it
    make the whole call, of a leaf and of a function that has other traced ones inside its body."""
    k = Kernel(isa, release)
    for hook in hooks_of(k):
        with hooked(k, hook):
            for name in ("eight_args", "calls_others"):
                run = call(k, name)
                whole, each = run.counts.total, seen(run, decoded(k, run))
                assert whole.instructions == len(run.steps)
                assert plus(run.counts.by_component.values()) == plus(run.counts.by_symbol.values()) == whole
                assert set(run.counts.by_component) == set(COMPONENTS)
                lo, hi = run.function.site.body, run.function.address + run.function.size
                inside = [i for i, s in enumerate(run.steps) if lo <= s.pc < hi]
                first, last = inside[0], inside[-1] + 1
                callbacks = total(
                    c
                    for i, c in enumerate(each)
                    if not first <= i < last and run.component_of(run.steps[i].pc) == "callback"
                )
                body = total(each[first:last])
                assert run.entry + body + run.exit + callbacks == whole, (hook, name)
                if name == "eight_args":
                    assert body == run.counts.by_component["function"]
                    assert callbacks == run.counts.by_component["callback"]


@every_isa
def test_unhooked_call_is_site_and_body_only(isa):
    """Without a hook nothing but the idle site and the function run, and the site touches no memory."""
    for release in RELEASES:
        k = Kernel(isa, release)
        c = call(k, "one_arg").counts
        assert {n for n, part in c.by_component.items() if part.instructions} == {"site", "function"}
        # endbr64 and the NOP; mov and NOP; AUIPC and NOP, two or four NOPs
        wanted = {
            "x86_64": 1 + bool(k.features["ibt"]),
            "arm64": 2,
            "riscv64": 4 if k.features["site"] == "detour16" else 2,
        }[isa]
        assert c.by_component["site"] == Counts(instructions=wanted)
        assert set(c.by_symbol) == {"one_arg"}


def test_arithmetic_of_counts():
    """Adding and subtracting are member by member, and nothing is left out of a dictionary."""
    a, b = Counts(1, 2, 3, 4, 5, 6), Counts(10, 20, 30, 40, 50, 60)
    assert (a + b).as_dict() == {f.name: 11 * (i + 1) for i, f in enumerate(fields(Counts))}
    assert a + b - b == a and Counts() + a == a


# --- Two meters


@every_isa
@pytest.mark.parametrize("release", ["v6.1", "v6.12", "v7.2"])
def test_both_meters_agree(isa, release):
    """The compiled meter and the one in Python give the same counts, the same steps and the same accesses for every
    hook, and recording changes no count."""
    kernels = {
        (kind, python): python_meter.kernel(python, isa, release, meter=kind)
        for kind in ("count", "record")
        for python in (False, True)
    }
    for hook in hooks_of(kernels["count", False]):
        runs = {}
        for key, k in kernels.items():
            with hooked(k, hook):
                runs[key] = [call(k, name) for name in CALLS]
        for name, expected, *others in zip(
            CALLS, runs["record", False], *(runs[key] for key in runs if key != ("record", False)), strict=True
        ):
            for run in others:
                assert run.counts == expected.counts, (hook, name)
                assert (run.value, run.hits, run.registers) == (expected.value, expected.hits, expected.registers), (
                    hook,
                    name,
                )
        for compiled, in_python in zip(runs["record", False], runs["record", True], strict=True):
            assert in_python.steps == compiled.steps
            assert (in_python.frame, in_python.entry, in_python.exit) == (compiled.frame, compiled.entry, compiled.exit)


@every_isa
@pytest.mark.parametrize("python", [False, True], ids=["compiled", "python"])
def test_full_recording_says_how_much_was_lost(isa, python, monkeypatch):
    """A recording that does not fit is refused with the number of lost events, never returned cut off."""
    whole = call(python_meter.kernel(python, isa), "one_arg")
    events = sum(1 + len(s.accesses) for s in whole.steps)
    for room in (1, events - 1):
        monkeypatch.setattr(machine, "MAX_EVENTS", room)
        with pytest.raises(TramplabError, match=rf"\b{events - room} events were lost"):
            call(python_meter.kernel(python, isa), "one_arg")
    monkeypatch.setattr(machine, "MAX_EVENTS", events)
    assert call(python_meter.kernel(python, isa), "one_arg").steps == whole.steps


def test_unknown_meter_is_refused():
    """A misspelt meter is an error, not a kernel that counts nothing."""
    with pytest.raises(TramplabError, match=r"recrod.*record"):
        Kernel("arm64", meter="recrod")


# --- The budget


@every_isa
@pytest.mark.parametrize("hook", ["none", "ops x2"])
@pytest.mark.parametrize("python", [False, True], ids=["compiled", "python"])
def test_budget_is_exact(isa, hook, python):
    """A call of n instructions passes with a budget of n and not with any smaller one; the message has the budget."""
    k = python_meter.kernel(python, isa, "v6.12", meter="count")
    with hooked(k, hook):
        n = call(k, "one_arg").counts.total.instructions
        assert call(k, "one_arg", budget=n).counts.total.instructions == n
    for budget in sorted({0, 1, 2, n // 2, n - 2, n - 1}):
        k = python_meter.kernel(python, isa, "v6.12", meter="count")  # fresh: what was cut off may hold the guard
        with hooked(k, hook), pytest.raises(StepLimit, match=rf"\b{budget} instructions"):
            call(k, "one_arg", budget=budget)
