"""Return hooks, of fprobes and of kretprobes, in states that few calls meet: calls of other frames on the list, hooks that are
freed while a call is on its way, a guard that is held at the return. Each check fails on the mutants that name it
(support/mutants/return_mutants.py).
"""

from contextlib import ExitStack

import pytest

from support.abi.members import Struct, cpu, task
from support.abi.probed import GUARD, Probes, booted, ends, fails, idle, new_task, place, probing
from support.mutants import return_mutants
from tramplab import Fprobe, Kernel, Kretprobe
from tramplab.build.assemble import assemble

#: fprobes, on the list of nodes without and with a question to RCU, on a ring, and on the task's own stack.
FPROBES = (
    place("x86_64", "v5.18"),
    place("x86_64", "v6.12"),
    place("arm64", "v7.2", rethook="shadow"),
    place("riscv64", "v6.9"),
)
#: kretprobes: on instances of their own, from a list and from a ring, and on return hooks.
KRETPROBES = (place("x86_64", "v5.17"), place("arm64", "v7.2"), place("x86_64", "v7.2"), place("riscv64", "v7.2"))
#: The same on several CPUs, with a ring for each: found by a mask, and counted.
SEVERAL_CPUS = (place("arm64", "v7.2", cpus=3), place("x86_64", "v7.2", cpus=3), place("x86_64", "v6.12", cpus=3))
#: kprobe_status: a handler runs.
HIT_ACTIVE = 1


def two_on_returns(k: Kernel, calls: int = 1) -> list[Fprobe | Kretprobe]:
    """Two probes on one function, with room for so many calls each: the second is the newest hook of a call."""
    if k.features["rethook"] in ("freelist", "objpool", "shadow"):
        room = None if k.features["rethook"] == "shadow" else calls
        return [Fprobe(entry=False, exit=True, nodes=room) for _ in range(2)]
    return [Kretprobe(breakpoint=k.isa.name != "x86_64", maxactive=calls, several=2)]


def owns(k: Kernel) -> bool:
    """Are they kretprobes that have instances of their own, and not on return hooks?"""
    return isinstance(two_on_returns(k)[0], Kretprobe) and k.features["kretprobe"] == "own"


def hooked(k: Kernel) -> list[Struct]:
    """The calls that are hooked, newest first."""
    struct, head = ("kretprobe_instance", "kretprobe_instances") if owns(k) else ("rethook_node", "rethooks")
    at, found = task(k)[head], []
    while at:
        found.append(Struct(k, struct, at))
        at = found[-1]["next"]
    return found


def frame_that_differs(k: Kernel) -> None:
    """The first call on the list that is of another frame is warned of, and no handler is called from there on; where the call goes
    on is right, and what it took is given back."""
    with probing(k, *two_on_returns(k)) as p:
        for n in (0, 1, 0):

            def other(n: int = n) -> None:
                one, frame = hooked(k)[n], "fp" if owns(k) else "frame"
                one[frame] += 16

            assert sum(p.call(other, warnings=1)) == n
            assert sum(p.call()) == 2
        assert not any(p.missed())


def calls_below(k: Kernel) -> None:
    """A call in a call comes back first, without a warning of the outer one's frame, and each has a node of its own."""
    f = k.function("call_tree")
    script, warned, before = k.memory(2, 1, 0, 0), k.image.address("lab_warnings"), idle(k)
    so_far = k.machine.read_u64(warned)
    with k.attached(f, *two_on_returns(k, 3)) as registered:
        for _ in range(3):
            hits = Probes(k, registered).hits()
            assert k.call(f, script).value == script + 32
            assert sum(Probes(k, registered).hits()) > sum(hits)
        assert k.machine.read_u64(warned) == so_far and idle(k) == before
    k.heap.give(script)


def owner_has_gone(k: Kernel) -> None:
    """A call on its way comes back all the same, and that one's handler is not called; nor, on return hooks, is a new call hooked,
    which is missed. What the call took is given back to nobody."""
    with probing(k, *two_on_returns(k)) as p:
        struct, member = ("kretprobe_holder", "rp") if owns(k) else ("rethook", "handler")
        at = p.struct(0)["rph"] if owns(k) else next(at for at, name in p.registered[0].structs.items() if name.endswith("hook"))
        hook = Struct(k, struct, at)
        there, before = hook[member], p.struct(0)["nmissed"]
        if not owns(k):
            with hook.having(handler=0):
                assert sum(p.call()) == 1 and p.struct(0)["nmissed"] == before + 1
        assert sum(p.call()) == 2
        if k.features["rethook"] != "shadow":  # where the part of the stack stays taken
            assert sum(p.call(lambda: hook.put({member: 0}), lambda: hook.put({member: there}))) == 1
            missed = p.struct(0)["nmissed"]
            assert sum(p.call()) == 1 and p.struct(0)["nmissed"] == missed + 1


def program_that_runs_already(k: Kernel) -> None:
    """It is missed, at the entry or at the return, and what is around it is undone all the same: it still runs once, not twice."""
    hits, size = k.image.address("lab_bpf_hits"), k.image.struct("lab_bpf_link").size
    with probing(k, Fprobe(exit=True, bpf=True)) as p:
        links = p.struct(0)["bpf"] + k.image.struct("bpf_fprobe").size
        progs = [Struct(k, "bpf_prog", Struct(k, "lab_bpf_link", links + n * size)["prog"]) for n in range(2)]
        for busy in (*progs, None):
            before, active = k.machine.read_u64(hits), cpu(k).address + (busy or progs[0])["active"]
            missed = [prog["misses"] for prog in progs]
            k.machine.write(active, int(busy is not None).to_bytes(4, "little"))
            p.call()
            assert k.machine.read_u64(hits) == before + (2 if busy is None else 1)
            assert [prog["misses"] for prog in progs] == [n + (prog is busy) for n, prog in zip(missed, progs, strict=True)]
            assert int.from_bytes(k.machine.read(active, 4), "little") == int(busy is not None)
            k.machine.write(active, bytes(4))


def told_at_the_return(k: Kernel) -> None:
    """A handler is told where the call goes on, on x86-64 that it is the kernel's code and no system call; meanwhile the CPU is not
    taken away, where it can be, and a kretprobe's is a kprobe's, as far as the CPU knows."""
    kept = ("cs", "orig_ax") if k.isa.name == "x86_64" else ()
    found = []
    probe = two_on_returns(k)[0]
    name, n = ("lab_kretprobe_exit", 1) if isinstance(probe, Kretprobe) else ("lab_fprobe_exit", 3)
    where, count = {"x86_64": ("ip", cpu(k)), "arm64": ("pc", task(k)), "riscv64": ("epc", task(k))}[k.isa.name]

    def look() -> None:
        regs = Struct(k, "pt_regs", k.machine.register(k.isa.args[n]))
        status = cpu(k)["kprobe_status"] if isinstance(probe, Kretprobe) else HIT_ACTIVE
        found.append(
            (
                status,
                regs[where],
                count["preempt_count"] & 0xFF,
                *(regs[name] for name in kept),
            )
        )

    with probing(k, probe) as p, k.machine.watching(k.image.address(name), look):
        assert sum(p.call()) == len(found)
    assert found
    for status, ip, preempt, *rest in found:
        assert status == HIT_ACTIVE
        assert ip == k.machine.return_to
        assert bool(preempt) == bool(k.features["preemption"])
        assert rest == [0x10, (1 << 64) - 1][: len(kept)]


def probe_without_a_handler(k: Kernel) -> None:
    """A kretprobe that has none for the return, or that its return hook has not: the others' are called."""
    with probing(k, *two_on_returns(k)) as p:
        with p.struct(0).having(handler=0):
            assert p.call() == [1]
        if not owns(k):
            hook = Struct(k, "rethook", p.struct(0)["rh"])
            with hook.having(data=0):
                assert p.call() == [1]
        assert p.call() == [2]


def busy_until_all_is_given_back(k: Kernel) -> None:
    """A CPU handles no kprobe until the instances of all calls of the frame have been given back."""
    found = []
    recycled = k.machine.watching(k.image.address("recycle_rp_inst"), lambda: found.append(cpu(k)["current_kprobe"]))
    with probing(k, *two_on_returns(k)) as p, recycled:
        assert p.call() == [2]
    assert len(found) == 2 and all(found)


def breakpoint_of_nobody(k: Kernel) -> None:
    """arm64's return trampoline is a BRK: elsewhere that is an error, and no call's return."""
    f = k.function("two_args")
    with k.attached(k.function("calls_others"), Kretprobe(breakpoint=True)):
        kept = k.machine.read(f.site.body, 4)
        k.machine.poke(f.site.body, assemble(k.isa, "brk #7"))
        assert ends(lambda: k.call("calls_others", 1, 2, 3), "lab_trap_unclaimed")
        k.machine.poke(f.site.body, kept)
        new_task(k)
        assert k.call("calls_others", 1, 2, 3).hits == (1,)


def guard_at_the_return(k: Kernel) -> None:
    """An fprobe that returns while the recursion guard is held misses that, and its node is given back."""
    with probing(k, *two_on_returns(k)) as p:
        for n in (1, 2):
            assert p.call(*(lambda held=held: task(k).put({"trace_recursion": held}) for held in (GUARD, 0))) == [0, 0]
            assert p.missed() == [n, n] and p.call() == [1, 1]


def node_says_who_called(k: Kernel) -> None:
    """An fprobe's node has the function and its caller; handlers of one without data are given none."""
    found = []

    def look() -> None:
        (call,) = hooked(k)
        node = Struct(k, "fprobe_rethook_node", call.address)
        found.append((node["entry_ip"], node["entry_parent_ip"]))

    given = []
    with probing(k, Fprobe(exit=True)) as p, ExitStack() as stack:
        for name in ("lab_fprobe_entry", "lab_fprobe_exit"):
            at = k.image.address(name)
            stack.enter_context(k.machine.watching(at, lambda: given.append(k.machine.register(k.isa.args[4]))))
        assert p.call(look) == [2] and given == [0, 0]
        assert found == [(p.f.site.ip, k.machine.return_to)]


def rcu_does_not_watch(k: Kernel) -> None:
    """Where return hooks ask, a call is missed meanwhile; where they do not, it is seen. Where the list's guard asks before them,
    nobody is called who could miss it."""
    before = int(k.features["recursion_rcu_test"])
    with probing(k, *two_on_returns(k)) as p, cpu(k).having(rcu_watching=0):
        seen = 0 if k.features["rethook_rcu_test"] or before else 1
        assert p.call(warnings=before) == [seen] * 2 and p.missed() == [1 - seen - before] * 2


def instances_of_other_cpus(k: Kernel) -> None:
    """Where its CPU has no instance a call takes that of another, from the next CPU on and around, and gives it to its own CPU;
    where kernels have a mask of CPUs, those that are not in it are passed over."""
    f, mask = k.function("call_tree"), "cpu_possible_mask"
    script = k.memory(1, 1, 0)
    with k.attached(f, Kretprobe(breakpoint=k.isa.name != "x86_64", maxactive=3)) as registered:
        probe = Probes(k, registered).struct(0)
        for number in (1, 0, 2, 2, 1):
            assert k.call(f, script, cpu=number).hits == (3,) and probe["nmissed"] == 0
        if mask in k.image.symbols:
            kept = k.machine.read_u64(k.image.address(mask))
            k.machine.write_u64(k.image.address(mask), 0b101)
            assert k.call(f, script).hits == (0,) and probe["nmissed"] == 3
            k.machine.write_u64(k.image.address(mask), kept)
        assert k.call(f, script).hits == (3,)
    k.heap.give(script)


_ALL = (frame_that_differs, calls_below, owner_has_gone, told_at_the_return)
_OF_FPROBES = (guard_at_the_return, node_says_who_called, rcu_does_not_watch, program_that_runs_already)
_OF_KRETPROBES = (probe_without_a_handler, busy_until_all_is_given_back, breakpoint_of_nobody, instances_of_other_cpus)
CHECKS = {check.__name__: check for check in (*_ALL, *_OF_FPROBES, *_OF_KRETPROBES)}
CASES = [
    *((where, check.__name__) for where in FPROBES for check in (*_ALL, *_OF_FPROBES)),
    *((where, check.__name__) for where in KRETPROBES for check in (*_ALL, probe_without_a_handler)),
    *((where, "busy_until_all_is_given_back") for where in KRETPROBES[:2]),
    (KRETPROBES[1], "breakpoint_of_nobody"),
    *((where, "instances_of_other_cpus") for where in SEVERAL_CPUS),
]


@pytest.mark.parametrize(("place", "check"), CASES, ids=lambda c: str(c))
def test_in_this_state_too_a_call_comes_out_right(place, check):
    CHECKS[check](booted(place))


@pytest.mark.parametrize("mutant", return_mutants.MUTANTS, ids=str)
def test_a_mutant_is_caught(mutant, mutated):
    """By the check that it is for: a call comes out otherwise, or not at all."""
    assert fails(CHECKS[mutant.hook], mutated(mutant).kernel)
