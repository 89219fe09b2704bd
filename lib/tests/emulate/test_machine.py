"""A machine for images of any size, with several CPUs over one memory."""

import dataclasses
import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.models import python_meter
from tramplab import Direct, Kernel, Ops, TramplabError
from tramplab.emulate import image as images
from tramplab.emulate.counting import counters
from tramplab.emulate.engine import PAGE, Engine
from tramplab.emulate.image import Image, Origin, Segment
from tramplab.emulate.machine import COUNT, METERS, Machine
from tramplab.emulate.memory.memory import GAP, Area, Memory, differences, runs
from tramplab.emulate.places import Places
from tramplab.ftrace.steps import Free, Sync, Wait
from tramplab.isa import ISAS

every_isa = pytest.mark.parametrize("isa", ISAS.values(), ids=lambda i: i.name)
SIZE = 64 << 20
#: A function that returns at once, and one that goes to another page and comes back.
RETURN = {"x86_64": b"\xc3", "arm64": bytes.fromhex("c0035fd6"), "riscv64": bytes.fromhex("67800000")}

# -- large images


def large(isa, size: int = SIZE) -> Machine:
    """A machine whose text has so many bytes and holds a function at its first and at its last word."""
    data = RETURN[isa.name].ljust(16, b"\0")
    text = Segment(isa.text_base, data + bytes(size - 32) + data, size, True, False)
    image = Image(isa, Path("made-up"), Origin("", "", ""), (text,), {}, {}, {}, ((isa.text_base, isa.text_base + size, "f"),), ())
    base = isa.text_base + size + PAGE
    areas = [Area(base, PAGE, executable=True), Area(base + 2 * PAGE, PAGE), Area(base + 4 * PAGE, PAGE)]
    return Machine(image, Places(base, areas[0], areas[1], (areas[2],)), COUNT)


@every_isa
def test_a_large_text_is_mapped_at_once(isa, monkeypatch):
    """64 MiB are a handful of mappings, not one a page, which would take minutes."""
    mapped = []
    real = Engine.map
    monkeypatch.setattr(Engine, "map", lambda e, a, n, **r: mapped.append(n) or real(e, a, n, **r))
    machine = large(isa)
    assert sorted(mapped) == [PAGE, PAGE, PAGE, SIZE]
    for at in (isa.text_base, isa.text_base + SIZE - 16):
        assert machine.call(at, {}).tally.issued == {at: (1, 1)}


def test_what_is_zero_is_not_loaded_and_reads_as_zero(monkeypatch):
    """As memory is before; wherever the zeros begin and end, and whatever is behind the data."""
    isa = ISAS["arm64"]
    for pieces in ((b"\1", bytes(3 * PAGE), b"\2"), (bytes(2 * PAGE + 5), b"\3" * PAGE), (b"\4" * PAGE, b"\5", bytes(PAGE)), ()):
        data, written = b"".join(pieces), []
        loaded = Segment(isa.text_base + 0x123, data, len(data) + 1, False, True)
        with monkeypatch.context() as patch:
            patch.setattr(Engine, "write", lambda e, a, d, w=written, real=Engine.write: w.append(len(d)) or real(e, a, d))
            memory = Memory(Engine(isa), [loaded], [])
        assert memory.read(loaded.address, loaded.size) == data + b"\0"
        assert sum(written) <= len(data.strip(b"\0")) + PAGE and sum(written) < max(1, len(data))


@every_isa
def test_a_call_clears_what_was_touched_and_no_more(isa, monkeypatch):
    """However long the text, nothing looks at all of it: neither to clear the counters nor to find what ran."""
    machine = large(isa, 1 << 20)

    def whole(*_):
        raise AssertionError("the whole text was looked at")

    watched = [monkeypatch.setattr(c, "executed", _Guarded(c.executed, whole)) for c in machine._meter._text]
    assert len(watched) == 2
    for at in (isa.text_base, isa.text_base + (1 << 20) - 16, isa.text_base):
        assert machine.call(at, {}).tally.issued == {at: (1, 1)}
    with pytest.raises(AssertionError, match="the whole text"):
        machine._meter._text[0].issued(1 << 30)


class _Guarded:
    """An array that complains when all of it is looked through."""

    def __init__(self, array, complain):
        self._array, self.nonzero = array, complain

    def __getitem__(self, at):
        return self._array[at]

    def __setitem__(self, at, value):
        self._array[at] = value


@pytest.mark.parametrize("python", [False, True])
def test_more_instructions_than_the_list_holds_are_found_all_the_same(monkeypatch, python):
    whole = python_meter.kernel(python, "arm64")
    monkeypatch.setattr(counters, "MOST_TOUCHED", 5)
    short = python_meter.kernel(python, "arm64")
    for kernel in (whole, short):
        kernel.attach(kernel.function("three_args"), Ops(), Ops())
    for _ in range(2):  # nothing of the first call is in the second
        a, b = (k.call("three_args", 1, 2, 3) for k in (whole, short))
        assert a.counts == b.counts and a.counts.total.instructions > 100


def test_pages_of_equal_rights_side_by_side_are_one_mapping():
    def segment(first, pages, writable=False, executable=False):
        return Segment(first * PAGE, b"", pages * PAGE - 1, executable, writable)

    assert runs([segment(10, 2, executable=True), segment(12, 1, executable=True), segment(20, 1, executable=True)]) == [
        (10 * PAGE, 3, False, True),
        (20 * PAGE, 1, False, True),
    ]
    # a page that two share has the rights of both
    assert runs([segment(1, 2, executable=True), segment(2, 2, writable=True)]) == [
        (1 * PAGE, 1, False, True),
        (2 * PAGE, 1, True, True),
        (3 * PAGE, 1, True, False),
    ]


def test_an_image_says_what_it_was_read_from():
    assert Kernel("riscv64").image.origin == Origin(".symtab", "DWARF", "__patchable_function_entries")


def test_the_machine_knows_no_symbol_of_the_lab():
    """The rooms below the lab name nothing of the guest's sources."""
    guest = {name for isa in ISAS for name in Kernel(isa).image.symbols}
    for path in sorted(Path(images.__file__).parent.rglob("*.py")):
        words = set(re.findall(r"\"(\w+)\"", path.read_text("utf-8")))
        assert words & guest == set(), path.name


# -- several CPUs


@pytest.fixture(params=ISAS)
def two(request):
    return Kernel(request.param, cpus=2)


def test_cpus_count_alike_and_have_stacks_and_data_of_their_own(two):
    f = two.function("three_args")
    with two.attached(f, Ops(recursion=True)):
        runs = [two.call(f, 1, 2, 3, cpu=n) for n in (0, 1, 0, 1)]
        assert {(r.value, r.hits) for r in runs} == {(34, (1,))}
        assert len({r.counts.total for r in runs}) == 1
    stacks = [{r.registers[two.isa.sp] for r in runs[n::2]} for n in (0, 1)]
    assert all(len(s) == 1 for s in stacks) and stacks[0] != stacks[1]
    first, second = two.cpus
    assert first.task != second.task and first.pcpu != second.pcpu
    # what a guarded callback held is given back in the CPU's own data: a guard that the other holds keeps nobody out
    size = two.image.struct("lab_pcpu").size
    assert two.machine.read(second.pcpu, size) != bytes(size)


def test_a_cpu_keeps_its_registers_while_another_runs(two):
    machine, isa = two.machine, two.isa
    name = next(r for r in isa.callee_saved if r not in (isa.fp, isa.sp, isa.link))
    machine.set_register(name, 1234)
    with machine.on(1):
        machine.set_register(name, 99)
        two.call("one_arg", 5)
    assert machine.register(name) == 1234
    with machine.on(1):
        assert machine.register(name) == 99 and machine.stack_top != machine.places.stacks[0].end
    assert machine.cpu == 0


def test_a_guard_that_one_cpu_holds_does_not_keep_the_other_out(two):
    """The recursion guard is the current task's."""
    f, task = two.function("one_arg"), two.image.struct("task_struct").fields["trace_recursion"]
    with two.attached(f, Ops(recursion=True)):
        two.machine.write(two.cpus[0].task + task.offset, b"\xff" * task.size)
        assert two.call(f, 5).hits == (0,) and two.call(f, 5, cpu=1).hits == (1,)


def test_a_fault_on_one_cpu_leaves_both_usable(two):
    with pytest.raises(TramplabError, match="guest fault"):
        two.call("pointer_args", 1, 2, cpu=1)
    assert [two.call("one_arg", 5, cpu=n).value for n in (0, 1)] == [15, 15]


def test_more_cpus_than_the_guest_knows_by_number():
    with pytest.raises(TramplabError, match="the guest has room for 64 CPUs, not 65; ask for fewer with cpus="):
        Kernel("riscv64", cpus=65)


def test_there_is_no_third_cpu(two):
    with pytest.raises(TramplabError, match="there is no CPU 2: this machine has 2; ask for more with cpus="):
        two.call("one_arg", 5, cpu=2)
    assert two.call("one_arg", 5).value == 15


# -- plans, a step at a time


def test_between_two_steps_every_cpu_can_call(two):
    """Before the plan nobody calls the callback, at its end everybody does; x86-64 takes its breakpoints, see test_traps.py."""
    two = Kernel(two.isa, cpus=2, traps=True)
    f = two.function("three_args")
    ops, plan = two.slowpath.register(Ops(filter=("three_args",)))
    seen = [two.call(f, 1, 2, 3, cpu=n % 2).hits[0] for n, _ in enumerate(two.stepwise(plan))]
    assert seen[0] == 0 and seen[-1] == 1 and seen == sorted(seen) and len(seen) == len(plan)
    two.detach(ops)


@every_isa
def test_memory_is_handed_out_again_behind_the_wait_and_not_before(isa):
    """An ops whose plan has not come to its wait keeps its place, its hashes and its trampoline."""
    k = Kernel(isa)
    (first,) = k.attach(k.function("one_arg"), Ops(save="ip"))
    plan = k.slowpath.unregister(first)
    wait = next(n for n, step in enumerate(plan) if isinstance(step, Wait) and step.sync is Sync.RCU_TASKS)
    assert all(not isinstance(step, Free) for step in plan[:wait]) and any(isinstance(s, Free) for s in plan[wait:])
    k.apply(plan[:wait])
    (second,) = k.attach(k.function("two_args"), Ops(save="ip"))
    assert second.index != first.index and second.trampoline != first.trampoline
    k.apply(plan[wait:])
    (third,) = k.attach(k.function("three_args"), Ops(save="ip"))
    assert (third.index, third.trampoline) == (first.index, first.trampoline)
    k.detach(second, third)


@every_isa
def test_a_write_of_live_text_is_atomic_where_nobody_waits_around_it(isa):
    """arm64 and riscv64 since v6.16 change one aligned instruction; x86-64 its tail under a breakpoint, which no fetch
    meets."""
    k = Kernel(isa)
    _, plan = k.slowpath.register(Direct(filter=("one_arg",)))
    site = k.function("one_arg").site
    live = [s for s in plan if getattr(s, "text", False) and site.entry <= s.address < site.body]
    k.apply(plan)
    assert live and all(s.granule in (1, 4) for s in live)
    assert [s.atomic for s in live] == ([True, False, True] if isa.name == "x86_64" else [True] * len(live))
    for s in live:
        moved = dataclasses.replace(s, address=s.address + 1, granule=4, data=b"\0" * 4)
        assert not moved.atomic


def test_every_wait_says_what_it_promises_and_to_whom():
    assert len({s.kernel for s in Sync}) == len(Sync) and all(s.promises and s.scope for s in Sync)
    assert set(METERS) == {"none", "count", "record"}


# -- what differs


@given(st.binary(max_size=200), st.data())
def test_differences_are_exactly_what_differs(old, data):
    """Put into the old bytes they give the new ones, and none is empty, or begins or ends with a byte that is the same."""
    changes = data.draw(st.lists(st.integers(0, max(len(old) - 1, 0)), max_size=5)) if old else []
    new = bytearray(old)
    for i in changes:
        new[i] ^= data.draw(st.integers(0, 255))
    found, there = list(differences(old, bytes(new))), bytearray(old)
    for start, end in found:
        assert start < end and old[start] != new[start] and old[end - 1] != new[end - 1]
        there[start:end] = new[start:end]
    assert there == new
    assert all(b - a >= GAP for (_, a), (b, _) in itertools.pairwise(found))


def test_near_changes_are_one_difference():
    """Changes 16 bytes apart are one, 17 bytes apart two."""
    now = bytearray(100)
    for i in (3, 19, 36):
        now[i] = 1
    assert list(differences(bytes(100), bytes(now))) == [(3, 20), (36, 37)]
