"""Ways from a light structure to a consumer: they differ in nothing but what they make, and that is what the matrix says it is."""

import functools
import itertools

import pytest

from tramplab.base.errors import TramplabError
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.sparsity.consumers.matrix import NOT_ASKED, matrix
from tramplab.sparsity.structures import fields
from tramplab.sparsity.structures.classify import GARBAGE
from tramplab.sparsity.structures.frames import frame
from tramplab.sparsity.structures.providers import provider
from tramplab.sparsity.structures.registers import register_of
from tramplab.sparsity.structures.views import PARTIAL, PERF, View
from tramplab.sparsity.ways import ways_convert, ways_priced, ways_served
from tramplab.sparsity.ways.ways import COPY, CPU, IN_PLACE, LIGHT, READ, STACK, way, ways
from tramplab.sparsity.ways.ways import provider as handed
from tramplab.trampolines.fprobe.handlers import links
from tramplab.trampolines.fprobe.multi import program
from tramplab.trampolines.fprobe.request import Fprobe

LINKS = [(isa, link) for isa in ISAS for link in links(Kernel(isa).image)]
#: Bytes of registers that a way's handler keeps besides what it makes, at most.
KEPT = 32
MADE = [(isa, link) for isa, link in LINKS if link != READ]


@functools.cache
def kernel(isa, release="v7.2"):
    return Kernel(isa, release)


@functools.cache
def called(isa, link):
    return ways_priced.call(kernel(isa), link)


# -- what a fill makes right


def outcomes(isa, release, view):
    cells = matrix(Kernel(isa, release), View(provider("ftrace_caller"), view)).cells
    return {cell.consumer.name: cell.outcome for cell in cells if cell.outcome != NOT_ASKED}


@pytest.mark.parametrize(
    "isa, link, release, view",
    [
        ("x86_64", "stack_plain", "v6.16", PARTIAL),
        ("x86_64", "stack_kernel", "v6.18", PARTIAL),
        ("x86_64", "stack_hardware", "v7.2", PARTIAL),
        ("arm64", "cpu_plain", "v6.16", PARTIAL),
        ("arm64", "cpu_kernel", "v7.2", PARTIAL),
        ("arm64", "cpu_perf", "v7.2", PERF),
        ("riscv64", "cpu_plain", "v7.2", PARTIAL),
        ("riscv64", "cpu_perf", "v7.2", PERF),
    ],
)
def test_a_link_serves_whom_the_release_with_its_fill_serves(isa, link, release, view):
    """The one is handed to a program in the middle of a call, the other is made of what an ops' callback was given."""
    expected, x86_older = outcomes(isa, release, view), isa == "x86_64" and release != "v7.2"
    found = ways_served.of_way(kernel(isa), way(kernel(isa), link))
    if x86_older:  # what a callchain starts with has changed besides
        expected.pop("callchain"), found.pop("callchain")
    assert found == expected


@pytest.mark.parametrize("isa, link", [(isa, link) for isa, link in MADE if link.endswith("_most")])
def test_what_no_fill_can_know_is_what_nobody_saved(isa, link):
    """Condition flags, and a register that functions keep, of which riscv64's step and call read one. Its branch compares with one,
    which is as far from a zero as from what is true."""
    lost = {"riscv64": {"emulate-call", "emulate-step"}}.get(isa, {"conditions", "emulate-branch", "emulate-step"})
    found = ways_served.of_way(kernel(isa), way(kernel(isa), link))
    assert {name for name, outcome in found.items() if outcome != "right"} == lost
    assert {name for name, outcome in found.items() if outcome == "wrong"} == lost, "and it is no garbage"
    assert not [slot for slot in frame(kernel(isa), handed(link)).slots.values() if slot.kind == GARBAGE]


@pytest.mark.parametrize("isa, link", MADE)
def test_what_others_left_in_memory_does_not_decide(isa, link):
    used, chosen = Kernel(isa), way(kernel(isa), link)
    for other in links(used.image):
        ways_priced.call(used, other)
    assert ways_served.of_way(used, chosen) == ways_served.of_way(Kernel(isa), chosen)


@pytest.mark.parametrize("isa", ISAS)
def test_a_light_structure_holds_arguments_and_where_it_is_and_nothing_else(isa):
    record = ISAS[isa]
    assert ways_served.carried(kernel(isa)) == {*record.args, "pc", record.sp, record.fp}
    lacking = {"user-mode", "callchain", "interrupts", "emulate-step"}
    found = ways_served.of_way(kernel(isa), way(kernel(isa), "light"))
    assert {name for name, outcome in found.items() if outcome == ways_served.LACKING} >= lacking
    assert found["argument"] == found["stack-pointer"] == found["instruction-pointer"] == "right"


@pytest.mark.parametrize("isa", ISAS)
def test_a_rewritten_program_finds_what_the_trampoline_saves_for_all(isa):
    """As read from the kernel's structures, x86-64's among them, of which ftrace_caller fills a part."""
    record = ISAS[isa]
    more = {"x86_64": {"rax"}, "arm64": {"x8", "x30"}, "riscv64": {"ra"}}[isa]  # riscv64's t1 is the trampoline's own
    assert ways_served.saved(kernel(isa)) == {*record.args, "pc", record.sp, record.fp} | more
    assert ways_priced.rewritten(kernel(isa)) == ways_priced.Price(0, 0, 0, 0)


# -- what it costs


@pytest.mark.parametrize("isa, link", MADE)
def test_nothing_but_the_handler_and_the_program_differs(isa, link):
    mine, read = called(isa, link), called(isa, READ)
    own = {"memcpy", *(f"lab_multi_entry_{name}" for name in (link, READ)), *(program(name) for name in (link, READ))}
    rest = [{name: counts for name, counts in run.counts.by_symbol.items() if name not in own} for run in (mine, read)]
    assert rest[0] == rest[1]


@pytest.mark.parametrize("isa, link", MADE)
def test_the_price_is_that_of_the_steps(isa, link):
    """Counted once more, instruction by instruction and access by access, as they were recorded."""
    mine, read = called(isa, link), called(isa, READ)
    price = ways_priced.of_way(kernel(isa), way(kernel(isa), link), mine, read)
    assert price.instructions == len(mine.steps) - len(read.steps)
    for what, store in (("loads", False), ("stores", True)):
        each = [int((run.recording.is_store == store).sum()) for run in (mine, read)]
        assert getattr(price, what) == each[0] - each[1]


@pytest.mark.parametrize("isa, link", MADE)
def test_room_is_where_the_way_says(isa, link):
    chosen = way(kernel(isa), link)
    price = ways_priced.of_way(kernel(isa), chosen, called(isa, link), called(isa, READ))
    size = kernel(isa).image.struct("pt_regs").size
    if chosen.kind == COPY:
        stack, memory = {STACK: (size, 0), CPU: (0, size), IN_PLACE: (0, 0)}[chosen.place]
        assert 0 <= price.stack - stack <= KEPT and price.memory == memory
    else:
        assert price.stack >= kernel(isa).image.struct("lab_bpf_light").size and not price.memory


@pytest.mark.parametrize("isa, link", [(isa, link) for isa, link in MADE if link.startswith("cpu_")])
def test_each_cpu_has_a_pt_regs_of_its_own(isa, link):
    two, at = Kernel(isa, cpus=2), []
    read = lambda: at.append(two.machine.register(two.isa.args[0]))  # noqa: E731
    with two.attached(two.function("two_args"), Fprobe(link=link)), two.machine.watching(two.image.address(program(link)), read):
        for cpu in (0, 1):
            two.call("two_args", 7, 9, cpu=cpu)
    size, room = two.image.struct("pt_regs").size, two.image.struct("lab_pcpu").size
    away = [start - cpu.pcpu for cpu, start in zip(two.cpus, at, strict=True)]
    assert away[0] == away[1] and 0 < away[0] <= room - size and at[0] % 8 == 0


@pytest.mark.parametrize("isa, link", LINKS)
@pytest.mark.parametrize("exits", [False, True])
def test_a_link_runs_its_program_and_leaves_all_as_it_was(isa, link, exits):
    one = Kernel(isa)

    def guards():
        """Depths of sections and the run's context, of the task and of its CPU."""
        held = {}
        for struct, at in (("lab_pcpu", one.cpus[0].pcpu), ("task_struct", one.cpus[0].task)):
            for name in ("bpf_prog_active", "bpf_ctx", "preempt_count", "rcu_read_lock_nesting", "trace_recursion"):
                if field := one.image.struct(struct).fields.get(name):
                    held[struct, name] = one.machine.read(at + field.offset, field.size)
        return held

    idle, before = guards(), one.call("two_args", 7, 9)
    with one.attached(one.function("two_args"), Fprobe(link=link, exit=exits)):
        run = one.call("two_args", 7, 9)
    assert (run.value, run.hits, guards()) == (before.value, (1 + exits,), idle)


@pytest.mark.parametrize("isa, link", [(isa, link) for isa, link in LINKS if link in (READ, "chain", "stack_plain")])
def test_a_link_inside_another_is_missed(isa, link):
    one = Kernel(isa)
    at = one.cpus[0].pcpu + one.image.struct("lab_pcpu").fields["bpf_prog_active"].offset
    with one.attached(one.function("two_args"), Fprobe(link=link)) as (probe,):
        one.machine.write(at, (1).to_bytes(4, "little"))
        run = one.call("two_args", 7, 9)
        (prog,) = (place for place, name in probe.structs.items() if name.endswith("program"))
        missed = one.machine.read_u64(prog + one.image.struct("bpf_prog").fields["misses"].offset)
    assert (run.hits, missed, one.machine.read(at, 4)) == ((0,), 1, (1).to_bytes(4, "little"))


# -- what is copied


def slots(isa, kind):
    """Offset of each slot of a kernel's structure -> the register it is named after."""
    return {place.offset: register_of(ISAS[isa], place.name) for place in fields.places(kernel(isa).image, kind)}


@pytest.mark.parametrize("isa", ISAS)
def test_through_the_whole_chain_each_word_stays_that_of_its_register(isa):
    found = [ways_convert.convert(kernel(isa), name) for name in ways_convert.CHAIN]
    assert [(a.target, b.source) for a, b in itertools.pairwise(found)] == [(a.target, a.target) for a in found[:-1]]
    names = slots(isa, "ftrace_regs")
    for one in found:
        names = {at: names[origin] for at, origin in one.copied.items()}
    last = slots(isa, "pt_regs")
    assert {at: last[at] for at in names} == names
    assert set(names.values()) == {"pc", ISAS[isa].sp, ISAS[isa].fp}


@pytest.mark.parametrize("isa", ISAS)
def test_what_goes_back_goes_where_it_came_from(isa):
    there = [ways_convert.convert(kernel(isa), name) for name in ("to_fprobe", "to_bpf")]
    back = ways_convert.convert(kernel(isa), "back")
    for at, origin in back.copied.items():
        assert there[0].copied[there[1].copied[origin]] == at
    assert {slots(isa, "ftrace_regs")[at] for at in back.copied} == {*ISAS[isa].args, "pc"}


# -- what there is


@pytest.mark.parametrize("isa", ISAS)
def test_what_no_release_fills_or_has_there_is_hypothetical(isa):
    real = {w.link for w in ways(kernel(isa)) if not w.hypothetical}
    assert real == {
        "x86_64": {"stack_plain", "stack_kernel", "stack_hardware"},
        "arm64": {"cpu_plain", "cpu_kernel", "cpu_perf"},
        "riscv64": {"cpu_plain", "cpu_perf"},
    }[isa]
    assert all(w.hypothetical for w in ways(kernel(isa)) if w.kind == LIGHT)


def test_errors_say_what_there_is():
    with pytest.raises(TramplabError, match="did you mean cpu_plain"):
        way(kernel("arm64"), "cpu_plan")
    with pytest.raises(TramplabError, match="did you mean to_perf"):
        ways_convert.convert(kernel("arm64"), "to_pref")
    with pytest.raises(TramplabError, match=r"arm64 v6\.12 has no links; arm64 has fprobes"):
        ways(Kernel("arm64", "v6.12"))
    with pytest.raises(TramplabError, match="did you mean chain"):
        kernel("arm64").attach(kernel("arm64").function("two_args"), Fprobe(link="chian"))
    with pytest.raises(TramplabError, match="fprobes have no links"):
        old = Kernel("x86_64", "v6.12")
        old.attach(old.function("two_args"), Fprobe(link=READ))
    with pytest.raises(TramplabError, match="brings its own handlers"):
        Fprobe(link=READ, observe=True)
