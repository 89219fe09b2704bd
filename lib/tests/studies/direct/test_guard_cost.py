"""What guards cost, part by part: against the runs' own totals, other ways of counting, and debug info."""

import pandas as pd
import pytest

from tramplab import Kernel, Ops
from tramplab.build import inlined
from tramplab.build.inlined import written
from tramplab.isa import ISAS
from tramplab.trampolines.bpf import Bpf
from tramplab_book.studies.direct.guards import guard_cost
from tramplab_book.studies.shared.every_release import newest

every_isa = pytest.mark.parametrize("isa", ISAS)


@pytest.fixture(scope="module")
def cost() -> pd.DataFrame:
    return guard_cost.rows()


@every_isa
def test_parts_add_up_to_what_the_calls_differ_by(isa, cost):
    """Against the runs' own totals, by component."""
    kernel = Kernel(isa)
    made = {
        "trylock": (Ops(callback="lab_callback_guarded"), Ops()),
        "RECURSION": (Ops(recursion=True), Ops()),
        "fentry": (Bpf(fentry=1), Bpf(fentry=1, guarded=False)),
        "fexit": (Bpf(fexit=1), Bpf(fexit=1, guarded=False)),
    }
    f = kernel.function("two_args")
    for guard, requests in made.items():
        counted = []
        for request in requests:
            with kernel.attached(f, request):
                counted.append(kernel.call(f, 1, 2).counts.by_component)
        part = newest(cost)
        part = part[(part["isa"] == isa) & (part["guard"] == guard)]
        for component, more in counted[0].items():
            some = part[part["component"] == component]
            less = counted[1][component]
            for what in guard_cost.COUNTED:
                assert some[what].sum() == getattr(more, what) - getattr(less, what), (guard, component, what)


def test_what_the_page_says_of_the_costs(cost):
    """ftrace's guard is the smaller one on every ISA, and of a program's less than half is for recursion."""
    for isa in ISAS:
        own, asked, program = (guard_cost.added(cost, guard)[isa] for guard in ("trylock", "RECURSION", "fentry"))
        assert own < program and own < asked
        part = guard_cost.by_part(cost)
        part = part[(part["isa"] == isa) & (part["guard"] == "fentry")].set_index("part")["instructions"]
        assert part["recursion"] < part.sum() / 2 and part.sum() == program


@pytest.mark.parametrize(("isa", "release"), [("x86_64", "v6.12"), ("arm64", "v6.12"), ("riscv64", "v6.12")])
def test_migration_and_rcu_against_the_functions_that_do_them(isa, release, cost):
    """Up to v6.17 they are functions, whose instructions by symbol are another way to count them; their calls come on top."""
    kernel = Kernel(isa, release)
    f = kernel.function("two_args")
    with kernel.attached(f, Bpf(fentry=1)):
        counts = kernel.call(f, 1, 2).counts.by_symbol
    part = cost[(cost["isa"] == isa) & (cost["release"] == release) & (cost["guard"] == "fentry")]
    for what, names in (("migration", ("migrate_disable", "migrate_enable")), ("RCU", ("__rcu_read_lock", "__rcu_read_unlock"))):
        alone = sum(counts[name].instructions for name in names if name in counts)
        found = part["instructions"][part["part"] == what].sum()
        assert alone <= found <= alone + 4, what
        assert alone or what == "RCU"


@every_isa
def test_preemption_is_what_a_kernel_that_does_not_count_lacks(isa, cost):
    """The same call in a kernel that counts no sections has none, and is about as much shorter."""
    runs = []
    for counts in (True, False):
        kernel = Kernel(isa, preemption=counts)
        f, chain = kernel.function("two_args"), written(kernel.image.path).chain
        with kernel.attached(f, Ops(callback="lab_callback_guarded")):
            run = kernel.call(f, 1, 2)
        parts = run.counts.by(lambda pc, chain=chain: guard_cost.part_of(chain(pc)))
        runs.append((run.counts.total.instructions, parts.get("preemption")))
    (longer, named), (shorter, none) = runs
    assert none is None and 0 < named.instructions <= longer - shorter <= 2 * named.instructions + 14


def test_what_is_inlined_is_told_from_debug_info():
    kernel = Kernel("x86_64", "v7.2")
    chain = written(kernel.image.path).chain
    start = kernel.image.symbol("__bpf_prog_enter_recur")
    chains = {chain(pc) for pc in range(start.address, start.address + start.size)}
    assert all(c[0] == "__bpf_prog_enter_recur" for c in chains)
    assert {"lab_migrate_disable", "preempt_disable_notrace", "lab_prog_get"} <= {name for c in chains for name in c}
    assert chain(kernel.image.address("ftrace_caller")) == () == chain(0)


def test_what_is_inlined_is_read_once(monkeypatch):
    """In whatever process: it is kept."""
    image = Kernel("x86_64", "v7.2").image
    first = written(image.path)
    written.cache_clear()
    monkeypatch.setattr(inlined, "_all_spans", lambda _: pytest.fail("read again"))
    again, start = written(image.path), image.symbol("__bpf_prog_enter_recur")
    assert again is not first
    assert all(again.chain(pc) == first.chain(pc) for pc in range(start.address, start.address + start.size))
