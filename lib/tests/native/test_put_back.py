"""What calls change is put back before the next hook: however many they are, and wherever they write."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from support.native.hosts import HOST, every_isa, runner
from tramplab import isa as isas
from tramplab import native
from tramplab.emulate.memory.memory import differences
from tramplab.ftrace import releases
from tramplab.ftrace.arch.common import rethook_pool
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.native import run, states
from tramplab.native.script import TimingPlan
from tramplab.trampolines import pool_layout

#: Calls of each hook, more than a ring or a return stack has places.
CALLS = 100_000
#: Releases with a list that all CPUs share, with rings, and with fprobes on the function graph tracer.
RELEASES = ("v6.6", "v6.7", "v6.13", "v7.2")


def _cases(*specs: str) -> list[tuple[str, str, str]]:
    """ISA, release and hook, of those that there are."""
    every = itertools.product(ISAS, RELEASES, specs)
    return [(isa, r, spec) for isa, r, spec in every if releases.features(isas.get(isa), r, {})[hooks.get(spec).needs]]


RETURNS = _cases("kretprobe", "fprobe-exit")
#: Of these, the ones whose nodes wait in a pool.
POOLS = [c for c in RETURNS if c[2] == "kretprobe" or releases.features(isas.get(c[0]), c[1], {})["rethook"] != "fgraph"]


def _plan(isa: str) -> TimingPlan:
    """So many calls of each hook, and the time after which they hang: an emulator of programs takes longer."""
    return TimingPlan(limit_ms=10_000 if isa == HOST else 60_000, calls=CALLS)


def _again(isa: str, release: str, spec: str, times: int, **changed: object) -> states.NativeKernel:
    """A subject that has the idle state and the hook's in turn, under names of their own."""
    subject = states.subject(isas.get(isa), release, {spec: states.hook(spec)}, 1)
    names = [f".{n}" if n else "" for n in range(times)]
    every = [dataclasses.replace(s, name=s.name + n, **changed) for n in names for s in subject.states]
    return dataclasses.replace(subject, states=tuple(every))


@pytest.mark.parametrize("isa, release, spec", RETURNS)
def test_no_number_of_calls_leaves_a_pool_that_hangs(isa, release, spec):
    """A ring's head and tail go on with every call, and are those of a new pool again when the next hook is attached."""
    subject = _again(isa, release, spec, 3)
    out = run.run(subject, _plan(isa), runner(isa))
    assert not out.failures and len(out.answers.check) == 6
    assert {seen[-1] for name, seen in out.answers.check.items() if name.startswith(spec)} == {CALLS}


@pytest.mark.parametrize("isa, release, spec", POOLS)
def test_after_all_calls_the_pool_holds_its_nodes(isa, release, spec):
    """Each once, in the list or between the ring's head and its last; and in the same order when the hook is run again."""
    kernel = states.boot(isas.get(isa), release)
    (ops,) = kernel.attach("one_arg", *hooks.requests(hooks.get(spec), 1))
    nodes = sorted(at for at, name in ops.structs.items() if name.endswith(pool_layout.NODES))
    rings = [at for at, name in ops.structs.items() if name.endswith(pool_layout.RING)]
    places = _ring(kernel, rings[0]) if rings else [*_first(kernel, ops), *(n + 8 for n in nodes)]
    twice = _again(isa, release, spec, 2, watched=tuple(places))
    out = run._once(twice, _plan(isa), runner(isa))
    assert out.done
    for name in (spec, f"{spec}.1"):
        _, *left = out.check[name]
        memory = dict(zip(places, left, strict=True))
        found = _in_ring(kernel, memory, rings[0]) if rings else _in_list(memory, places[0])
        assert nodes and sorted(found) == nodes and out.check[spec] == out.check[name]
    assert out.check["none"] == out.check["none.1"]


def _ring(kernel, ring: int) -> list[int]:
    """The words of a ring: its numbers, and its entries."""
    size = kernel.image.struct("objpool_slot").size
    room = int.from_bytes(kernel.machine.read(ring + 12, 4), "little") + 1
    return list(range(ring, ring + size + 8 * room, 8))


def _in_ring(kernel, memory: dict[int, int], ring: int) -> list[int]:
    size = kernel.image.struct("objpool_slot").size
    numbers, others = memory[ring], memory[ring + 8]
    head, tail, last, mask = numbers & 0xFFFFFFFF, numbers >> 32, others & 0xFFFFFFFF, others >> 32
    assert tail == last and head == CALLS & 0xFFFFFFFF
    return [memory[ring + size + 8 * (n & mask)] for n in range(head, last)]


def _first(kernel, ops) -> list[int]:
    """The word with the first node of a list that all CPUs share: a return hook's, or a kretprobe's own."""
    assert rethook_pool(kernel.features) == "freelist"
    (hook,) = (at for at, name in ops.structs.items() if name.endswith(pool_layout.HOOK))
    return [hook + kernel.image.struct("rethook").fields["list"].offset]


def _in_list(memory: dict[int, int], first: int) -> list[int]:
    found, at = [], memory[first]
    while at:
        found.append(at)
        at = memory[at + 8]
    return found


@every_isa
def test_the_next_hook_finds_the_idle_kernel(isa):
    """Every word that calls of a hook changed, as a kernel in the emulator shows, is the idle one's when the next is called."""
    record, words = isas.get(isa), runner(isa)
    release, specs = "v7.2", [s for s in native.default_hooks(record) if not s.endswith(":10")]
    idle = states.boot(record, release)
    regions = [r for r in states._regions(idle) if not r.text and r.address != idle.machine.stack.address]
    changed: set[int] = set()
    for spec in specs:
        kernel = states.boot(record, release)
        function = kernel.function("one_arg")
        with states.hook(spec)(kernel, function):
            before = [states.Region(r.address, False, kernel.machine.read(r.address, len(r.data))) for r in regions]
            kernel.call(function, 1)
            for r in before:
                for start, end in differences(r.data, kernel.machine.read(r.address, len(r.data))):
                    changed |= set(range(r.address + start & -8, r.address + end, 8))
    assert changed
    places = tuple(sorted(changed))
    subject = states.subject(record, release, {s: states.hook(s) for s in specs}, 1)
    none = dataclasses.replace(subject.states[0], watched=places, seen=tuple(idle.machine.read_u64(at) for at in places))
    mixed = [s for n, hooked in enumerate(subject.states[1:]) for s in (dataclasses.replace(none, name=f"none.{n}"), hooked)]
    every = dataclasses.replace(subject, states=(*mixed, dataclasses.replace(none, name="none")))
    out = run._once(every, TimingPlan(), words)
    assert out.done and {tuple(seen) for name, (_, *seen) in out.check.items() if name.startswith("none")} == {none.seen}
