"""kprobes, and the exceptions that their breakpoints raise, in states that few calls meet: two kprobes one after the other inside a
third one's handler, a CPU that RCU does not watch, a kprobe that is disabled. Each check fails on the mutants that name it
(support/mutants/trap_mutants.py).
"""

from contextlib import ExitStack

import pytest

from support.abi import kprobe_abi
from support.abi.members import Struct, cpu, task
from support.abi.probed import GUARD, booted, ends, fails, idle, new_task, place, probing, tell
from support.mutants import trap_mutants
from tramplab import Kernel, Kprobe, Kretprobe
from tramplab.build.assemble import assemble

_ON = {"kprobes_on_ftrace": True}
#: One of each way to do the probed instruction, and of each exception.
BREAKPOINTS = (place("x86_64", "v7.2"), place("arm64", "v7.2"), place("riscv64", "v6.12"), place("riscv64", "v7.2"))
#: Through ftrace: with the kernel's registers, and with such as are made.
FTRACE = (place("x86_64", "v6.12"), place("arm64", "v7.2", **_ON), place("riscv64", "v7.2", **_ON))
GONE, DISABLED, OPTIMIZED = 1, 2, 4
#: kprobe_status: a handler runs; the instruction is next; it is done.
HIT_ACTIVE, HIT_SS, HIT_SSDONE = 1, 2, 8
NMI_AND_IRQ, NMI = 1 << 20 | 1 << 16, 0xF << 20


def probes_in_a_handler(k: Kernel) -> None:
    """Two kprobes that are hit one after the other inside a third one's handler are missed and counted, and their instructions are
    done; the third one's is done after that."""
    told = Struct(k, "lab_watching", k.image.address("lab_watching"))
    for breaks in (True, False) if k.isa.name == "x86_64" else (True,):
        outer = Kretprobe(breakpoint=breaks, untraced=breaks, entry=True, watch=True, filter=("one_arg",))
        inner = Kprobe(breakpoint=True, filter=("two_args", "three_args"))
        with k.attached(None, outer, inner) as registered:
            tell(k, at_entry=k.function("calls_others").address, most=1)
            before, states = idle(k), []
            between = k.machine.watching(k.function("three_args").address, lambda s=states: s.append(cpu(k)["kprobe_status"]))
            with between:
                assert k.call("one_arg", 5).value == 15
            assert states == [HIT_ACTIVE]
            assert told["called"] == 1 and idle(k) == before
            structs = [Struct(k, "kprobe", at) for at, name in registered[1].structs.items() if name.endswith("]")]
            assert [one["nmissed"] for one in structs] == [1, 1]
            assert sum(k.call("two_args", 5, 7).hits) == 1 and idle(k) == before


def probe_while_one_is_stepped(k: Kernel) -> None:
    """A kprobe that is hit while another's instruction is done out of its place has no way on: the call ends."""
    outer = Kretprobe(breakpoint=True, untraced=True, entry=True, watch=True, filter=("one_arg",))
    with k.attached(None, outer, Kprobe(breakpoint=True, filter=("two_args",))):
        tell(k, at_entry=k.function("two_args").address, most=1)
        with k.machine.watching(k.function("two_args").address, lambda: cpu(k).put({"kprobe_status": HIT_SS})):
            assert ends(lambda: k.call("one_arg", 5))
        new_task(k)
        assert k.call("one_arg", 5).value == 15


def breakpoint_of_nobody(k: Kernel) -> None:
    """A breakpoint in a handler that is no kprobe's is an error: it is not the one after a copy while no copy is run, nor is it
    while one is run somewhere else."""
    f, outer = k.function("two_args"), Kretprobe(breakpoint=True, untraced=True, entry=True, watch=True, filter=("one_arg",))
    code = {"x86_64": "int3", "arm64": "brk #6", "riscv64": ".option norvc\nebreak"}[k.isa.name]
    at, kept = f.site.body, k.machine.read(f.site.body, 4)
    for status, members in ((HIT_ACTIVE, ("slot", "slot_end")), (HIT_SS, ())):

        def come(status: int = status, members: tuple[str, ...] = members) -> None:
            Struct(k, "kprobe", cpu(k)["current_kprobe"]).put(dict.fromkeys(members, at))
            cpu(k)["kprobe_status"] = status

        with k.attached(None, outer):
            tell(k, at_entry=f.address, most=1)
            k.machine.poke(at, assemble(k.isa, code))
            with k.machine.watching(f.address, come):
                assert ends(lambda: k.call("one_arg", 5), "lab_trap_unclaimed")
            k.machine.poke(at, kept)
            new_task(k)


def jump_in_its_place(k: Kernel) -> None:
    """x86-64's kprobe that a jump stands for is not built: a call that meets one ends."""
    with probing(k, Kprobe(breakpoint=True)) as p:
        with p.struct(0).having(flags=p.struct(0)["flags"] | OPTIMIZED):
            assert ends(lambda: k.call(p.f, 5, 7))
        new_task(k)
        assert p.call() == [1]


def several_in_a_handler(k: Kernel) -> None:
    """Of several at one address each is missed, not the kprobe that stands for them."""
    outer = Kretprobe(breakpoint=True, untraced=True, entry=True, watch=True, filter=("one_arg",))
    inner = Kretprobe(breakpoint=True, untraced=True, several=3, filter=("two_args",))
    with k.attached(None, outer, inner) as registered:
        tell(k, at_entry=k.function("two_args").address, most=1)
        assert k.call("one_arg", 5).value == 15
        each = [Struct(k, "kprobe", at)["nmissed"] for at, name in registered[1].structs.items() if name.endswith("]")]
        assert each == [1] * 3


def cpu_that_rcu_does_not_watch(k: Kernel) -> None:
    """It does while the exception is handled, and not afterwards; where it does, it goes on to, and so deep as it was."""
    found = []

    def look() -> None:
        found.append((cpu(k)["rcu_watching"], cpu(k)["nmi_nesting"]))

    with probing(k, Kprobe(breakpoint=True)) as p, k.machine.watching(k.image.address("lab_kprobe_pre"), look):
        for state, told in (
            ({"rcu_watching": 0, "nmi_nesting": 0}, (1, 1)),
            ({"rcu_watching": 1, "nmi_nesting": 0}, (1, 2)),
            ({"rcu_watching": 1, "nmi_nesting": 4}, (1, 6)),
        ):
            with cpu(k).having(**state):
                assert p.call() == [1] and found[-1] == told


def cpu_that_rcu_waits_for(k: Kernel) -> None:
    """An exception that counts as no NMI says so; one that does, does not."""
    counted = k.isa.name != "arm64"
    with probing(k, Kprobe(breakpoint=True)) as p, cpu(k).having(rcu_urgent=1):
        assert p.call() == [1] and cpu(k)["rcu_urgent"] == counted


def depth_of_interrupts(k: Kernel) -> None:
    """A handler finds the exception counted as an NMI and an interrupt; arm64's only keeps the CPU from being taken away."""
    counter, found = count(k), []
    with probing(k, Kprobe(breakpoint=True)) as p:
        before = counter["preempt_count"]
        with k.machine.watching(k.image.address("lab_kprobe_pre"), lambda: found.append(counter["preempt_count"] - before)):
            assert p.call() == [1]
    counted = NMI_AND_IRQ if k.isa.name != "arm64" else int(bool(k.features["preemption"]))
    assert found == [counted]


def count(k: Kernel) -> Struct:
    """What has the preempt count."""
    return cpu(k) if k.isa.name == "x86_64" else task(k)


def counts_that_cannot_be(k: Kernel) -> None:
    """RCU's count below zero, or as many NMIs as are counted: the call ends before a handler runs. Counts that are lost while one
    runs: the call ends after it."""
    interrupts = count(k)["preempt_count"]
    before: list[tuple[Struct, dict[str, int]]] = [(cpu(k), {"nmi_nesting": (1 << 64) - 2})]
    after: list[tuple[Struct, dict[str, int]]] = [(cpu(k), {"nmi_nesting": 0}), (cpu(k), {"rcu_watching": 0})]
    there = ""  # arm64's traps of the compiler's are exceptions themselves
    if k.isa.name != "arm64":
        there = "nmi_exit"
        before.append((count(k), {"preempt_count": interrupts | NMI}))
        after.append((count(k), {"preempt_count": interrupts}))
    with probing(k, Kprobe(breakpoint=True)) as p:
        for where, members in before:
            so_far = p.hits()
            with where.having(**members):
                assert ends(p.call) and p.hits() == so_far
            new_task(k)
        for where, members in after:
            with k.machine.watching(k.image.address("lab_kprobe_pre"), lambda where=where, members=members: where.put(members)):
                assert ends(p.call, there)
            new_task(k)
        assert p.call() == [1]


def handler_that_goes_elsewhere(k: Kernel) -> None:
    """One that has sent the CPU elsewhere leaves no kprobe running: the next one is handled."""
    with probing(k, Kprobe(breakpoint=True, handler="lab_kprobe_skip", go_to="new_two_args")) as p:
        for n in (1, 2):
            before = idle(k)
            assert k.call(p.f, 5, 7).value == 5 * 29 + 7 * 31 + (1 << 40)
            assert p.hits() == [n] and idle(k) == before


def vector_in_use(k: Kernel) -> None:
    """riscv64, where the CPU may be taken away: an exception is counted in a task that uses the vector in the kernel."""
    found = []
    look = k.machine.watching(k.image.address("lab_kprobe_pre"), lambda: found.append(task(k)["vector_flags"]))
    with probing(k, Kprobe(breakpoint=True)) as p, task(k).having(vector_flags=0x100), look:
        assert p.call() == [1]
    assert found == [0x100 + (1 << 16) * bool(k.features["preemption"])]


def disabled(k: Kernel) -> None:
    """One that is disabled, or that is not found, is not handled; its function runs."""
    with probing(k, Kprobe()) as p:
        with p.struct(0).having(flags=p.struct(0)["flags"] | DISABLED):
            assert p.call() == [0]
        table = k.image.symbol("kprobe_table")
        kept = k.machine.read(table.address, table.size)
        k.machine.write(table.address, bytes(table.size))
        assert p.call() == [0]
        k.machine.write(table.address, kept)
        assert p.call() == [1]


def handlers_of_a_patch_site(k: Kernel) -> None:
    """A handler is told the caller; the one after it finds the instruction done; neither is called while the recursion guard is
    held, nor one that is not there."""
    told, where = [], {"x86_64": "ip", "arm64": "pc", "riscv64": "epc"}[k.isa.name]

    def look() -> None:
        regs = Struct(k, "pt_regs", k.machine.register(k.isa.args[1]))
        told.append((cpu(k)["kprobe_status"], regs[where]))
        if k.isa.link is not None:
            at = regs.address + 8 * kprobe_abi.slot(k, k.isa.link)
            assert k.machine.read_u64(at) == k.machine.return_to

    with probing(k, Kprobe(post=True)) as p, ExitStack() as stack:
        for name in ("lab_kprobe_pre", "lab_kprobe_post"):
            stack.enter_context(k.machine.watching(k.image.address(name), look))
        assert p.call() == [1]
        (active, _), (done, ip) = told
        assert (active, done) == (HIT_ACTIVE, HIT_SSDONE) and ip == p.f.site.ip + (5 if k.isa.name == "x86_64" else 4)
        with task(k).having(trace_recursion=GUARD):
            assert p.call() == [0]
        with p.struct(0).having(pre_handler=0):
            assert p.call() == [0]
        assert len(told) == 3 and p.call() == [1]


def done_when_it_is_told(k: Kernel) -> None:
    """The handler before the probed instruction is called when it is not done yet, the one after it once when it is."""
    told = []
    with probing(k, Kprobe(breakpoint=True, post=True)) as p, ExitStack() as stack:
        for name in ("lab_kprobe_pre", "lab_kprobe_post"):
            at = k.image.address(name)
            stack.enter_context(k.machine.watching(at, lambda: told.append(cpu(k)["kprobe_status"])))
        assert p.call() == [1] and told == [HIT_ACTIVE, HIT_SSDONE]
        with p.struct(0).having(pre_handler=0):
            assert p.call() == [0] and told[2:] == [HIT_SSDONE]


def which_of_several(k: Kernel) -> None:
    """Where kernels keep it, the CPU knows which of several at one address is handled, and afterwards none; one without a handler
    is left out."""
    told = []

    def look() -> None:
        told.append(cpu(k)["kprobe_instance"] == k.machine.register(k.isa.args[0]))

    with probing(k, Kretprobe(several=3)) as p:
        with k.machine.watching(k.image.address("pre_handler_kretprobe"), look):
            assert p.call() == [3] and told == [bool(k.features["kprobe_instance"])] * 3
        first = Struct(k, "kprobe", p.struct(0).address)
        with first.having(pre_handler=0):
            assert p.call() == [2]


def one_of_several_disabled(k: Kernel) -> None:
    """Of several at one address those that are disabled or gone are left out."""
    with probing(k, Kretprobe(several=3)) as p:
        assert p.call() == [3]
        each = [Struct(k, "kprobe", at) for at, name in p.registered[0].structs.items() if name.endswith("]")]
        for flag in (GONE, DISABLED):
            for one in each:
                with one.having(flags=one["flags"] | flag):
                    assert p.call() == [2]
        assert p.call() == [3]


_BREAKS = (
    probes_in_a_handler,
    probe_while_one_is_stepped,
    breakpoint_of_nobody,
    several_in_a_handler,
    cpu_that_rcu_does_not_watch,
    cpu_that_rcu_waits_for,
    depth_of_interrupts,
    counts_that_cannot_be,
    handler_that_goes_elsewhere,
    done_when_it_is_told,
)
_OTHERS = (jump_in_its_place, vector_in_use, disabled, handlers_of_a_patch_site, which_of_several, one_of_several_disabled)
CHECKS = {check.__name__: check for check in (*_BREAKS, *_OTHERS)}
CASES = [
    *((where, check.__name__) for where in BREAKPOINTS for check in _BREAKS),
    (BREAKPOINTS[0], "jump_in_its_place"),
    *((where, "vector_in_use") for where in BREAKPOINTS if where.isa == "riscv64"),
    *((where, name) for where in FTRACE for name in ("disabled", "handlers_of_a_patch_site")),
    *((where, name) for where in (FTRACE[0], place("x86_64", "v7.2")) for name in ("one_of_several_disabled", "which_of_several")),
]


@pytest.mark.parametrize(("place", "check"), CASES, ids=lambda c: str(c))
def test_in_this_state_too_a_call_comes_out_right(place, check):
    CHECKS[check](booted(place))


@pytest.mark.parametrize("mutant", trap_mutants.MUTANTS, ids=str)
def test_a_mutant_is_caught(mutant, mutated):
    """By the check that it is for: a call comes out otherwise, or not at all."""
    assert fails(CHECKS[mutant.hook], mutated(mutant).kernel)
