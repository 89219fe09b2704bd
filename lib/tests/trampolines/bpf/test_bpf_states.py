"""What goes around BPF programs in states that few calls meet: a trampoline that is being freed, a task that may not migrate, a
program inside itself. Each check fails on the mutants that name it (support/mutants/bpf_mutants.py).
"""

import pytest

from support.abi.members import Struct, cpu, task
from support.abi.probed import Probes, booted, fails, place, probing
from support.mutants import bpf_mutants
from tramplab import Bpf, Kernel, Kprobe

#: Guards that are functions and that are inline, readers that are counted and that are not, one counter and one for each context.
PLACES = (place("x86_64", "v6.12"), place("x86_64", "v7.2"), place("arm64", "v7.2"), place("riscv64", "v6.12"))
#: The lowest bits of an image's counter say that it is being freed.
ENDS = 1
#: trace_kprobe.flags: what is recorded, and what programs and perf events are for.
TRACED, PROFILED = 1, 2
#: Preempt counts of this context: none, softirq, hardirq, NMI.
CONTEXTS = (0, 1 << 8, 1 << 16, 1 << 20)


def struct(p: Probes, kind: str) -> Struct:
    """The first of a kind."""
    return Struct(p.k, kind, next(at for at, name in p.registered[0].structs.items() if name.startswith(kind)))


def ran(p: Probes, look=lambda: None, warnings: int = 0) -> int:
    """Runs of programs in a call, with something done at each. warnings: that the kernel gives."""
    hits = p.k.image.address("lab_bpf_hits")
    before = p.k.machine.read_u64(hits)
    with p.k.machine.watching(p.k.image.address("lab_bpf_count"), look):
        p.call(warnings=warnings)
    return p.k.machine.read_u64(hits) - before


def image_that_is_freed(k: Kernel) -> None:
    """A call that is in a trampoline counts in one place then, and the last one to leave says so."""
    found: list[int] = []
    with probing(k, Bpf(fentry=1, fexit=1)) as p:
        image = struct(p, "bpf_tramp_image")
        for users, released in ((1, 0), (0, 1)):
            with image.having(pcref=image["pcref"] | ENDS, users=users, released=0):
                assert p.call(lambda: found.append(image["users"])) == [0]
                assert (found[-1], image["users"], image["released"]) == (users + 1, users, released)


def task_that_may_not_migrate(k: Kernel) -> None:
    """While a program runs it is one level deeper, and its CPU counts one such task more at the first level."""
    found: list[tuple[int, int]] = []
    inside = k.features["preempt_rcu"] or not k.features["bpf_inline_guards"]  # else a reader cannot be preempted
    with probing(k, Bpf(fentry=1)) as p:
        for level in (0, 1, 2):
            with task(k).having(migration_disabled=level):
                assert ran(p, lambda: found.append((task(k)["migration_disabled"], cpu(k)["nr_pinned"]))) == 1
            assert found[-1] == ((level + 1, int(level == 0)) if inside else (level, 0))


def task_whose_cpus_have_changed(k: Kernel) -> None:
    """When it may migrate again it is put where it may run, and the end of the reader is reported if that was asked for."""
    pointed = bool(k.features["preempt_rcu"] or not k.features["bpf_inline_guards"])
    with probing(k, Bpf(fentry=1)) as p:
        own = task(k)["cpus_ptr"]
        with task(k).having(cpus_ptr=own + 8, rcu_read_unlock_special=1):
            assert ran(p) == 1
            assert (task(k)["cpus_ptr"] == own) == pointed
            assert task(k)["rcu_read_unlock_special"] == (0 if k.features["preempt_rcu"] else 1)


def reader_while_it_runs(k: Kernel) -> None:
    """A program is an RCU reader: counted in the task, or by a CPU that is not taken away."""
    found: list[tuple[int, int]] = []
    where = cpu(k) if k.isa.name == "x86_64" else task(k)
    with probing(k, Bpf(fentry=1)) as p:
        assert ran(p, lambda: found.append((task(k)["rcu_read_lock_nesting"], where["preempt_count"] & 0xFF))) == 1
    counted = bool(k.features["preempt_rcu"])
    assert found == [(int(counted), int(bool(k.features["preemption"]) and not counted))]


def program_in_each_context(k: Kernel) -> None:
    """One runs once, and its counter is that of the context where there is one for each; one that runs already is missed."""
    where = cpu(k) if k.isa.name == "x86_64" else task(k)
    with probing(k, Bpf(fentry=1)) as p:
        prog = struct(p, "bpf_prog")
        active = cpu(k).address + prog["active"]
        for level, context in enumerate(CONTEXTS):
            found: list[int] = []
            own = 8 * level if k.features["bpf_context_counter"] else 0
            with where.having(preempt_count=where["preempt_count"] | context):
                assert ran(p, lambda found=found: found.append(k.machine.read_u64(active) & 0xFFFFFFFF)) == 1
                assert found == [1 << own]
                k.machine.write(active, (1 << own).to_bytes(4, "little"))
                missed = prog["misses"]
                assert ran(p) == 0 and prog["misses"] == missed + 1
                assert k.machine.read_u64(active) & 0xFFFFFFFF == 1 << own
                k.machine.write(active, bytes(4))


def programs_of_a_kprobe(k: Kernel) -> None:
    """They are not run while another runs on the CPU, which is a miss, nor where the event is not profiled or has none; hits are
    counted all the same. A program may send the CPU elsewhere. An event that is recorded or traced is warned of."""
    with probing(k, Kprobe(breakpoint=k.isa.name != "x86_64", bpf=True)) as p:
        event = Struct(k, "trace_probe_event", Struct(k, "trace_kprobe", next(iter(p.registered[0].structs)))["event"])
        call = Struct(k, "trace_event_call", event.address + k.image.struct("trace_probe_event").fields["call"].offset)
        prog = Struct(k, "bpf_prog", Struct(k, "bpf_prog_array_item", call["prog_array"])["prog"])
        hits, missed = cpu(k)["kprobe_nhit"], prog["misses"]
        assert ran(p) == 1 and prog["misses"] == missed
        with cpu(k).having(bpf_prog_active=1):
            assert ran(p) == 0 and prog["misses"] == missed + 1
        for part, without in ((event, {"flags": event["flags"] & ~PROFILED}), (call, {"prog_array": 0})):
            with part.having(**without):
                assert ran(p) == 0
        assert cpu(k)["kprobe_nhit"] == hits + 4
        where = {"x86_64": "ip", "arm64": "pc", "riscv64": "epc"}[k.isa.name]

        def send() -> None:
            Struct(k, "pt_regs", k.machine.register(k.isa.args[0]))[where] = k.image.address("new_two_args")

        with k.machine.watching(k.image.address("lab_bpf_count"), send):
            assert k.call(p.f, 5, 7).value == 5 * 29 + 7 * 31 + (1 << 40)
        assert ran(p) == 1
        with call.having(prog_array=0, perf_events=1):
            assert ran(p, warnings=1) == 0
        with event.having(flags=event["flags"] | TRACED):
            assert ran(p, warnings=1) == 1


CHECKS = {
    check.__name__: check
    for check in (
        image_that_is_freed,
        task_that_may_not_migrate,
        task_whose_cpus_have_changed,
        reader_while_it_runs,
        program_in_each_context,
        programs_of_a_kprobe,
    )
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("where", PLACES, ids=str)
def test_in_this_state_too_a_call_comes_out_right(where, check):
    CHECKS[check](booted(where))


@pytest.mark.parametrize("mutant", bpf_mutants.MUTANTS, ids=str)
def test_a_mutant_is_caught(mutant, mutated):
    """By the check that it is for: a call comes out otherwise, or not at all."""
    assert fails(CHECKS[mutant.hook], mutated(mutant).kernel)
