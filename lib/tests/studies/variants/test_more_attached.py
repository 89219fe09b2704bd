"""Studies that attach more and more to one function: several callbacks, and functions of several arguments."""

import pytest

from tramplab import Kernel, Ops
from tramplab.emulate.counting.counts import Counts
from tramplab.estimate.measure import measure
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab_book.studies.variants.one_callback import single_callback
from tramplab_book.studies.variants.saving import arguments
from tramplab_book.studies.variants.switching import callbacks


def total(isa: str, hook: str, **options) -> Counts:
    return sum((Counts(**c) for c in measure(isa, hook, **options)["components"].values()), Counts())


# --- callbacks


@pytest.mark.parametrize("isa", ISAS)
def test_callbacks_on_a_grown_kernel_cost_what_they_cost_on_a_fresh_one(isa):
    rows = callbacks.rows()
    mine = rows[(rows["isa"] == isa) & (rows["regs"] == "none")]
    mine = mine[mine["release"] == callbacks.shown(isa)[-1]].set_index("callbacks")
    assert mine.index.tolist() == list(callbacks.COUNTS) and callbacks.COUNTS[-1] == 64
    base = total(isa, "none", args=3)
    for k in (1, 2, 64):
        assert (total(isa, "ops", args=3, callbacks=k) - base).as_dict() == mine.loc[k, list(base.as_dict())].to_dict()


@pytest.mark.parametrize(("isa", "release"), [(isa, callbacks.shown(isa)[0]) for isa in ISAS])
def test_it_does_not_matter_which_ops_wants_all_registers(isa, release):
    """The series `one` has it first; anywhere else the call is the same."""
    kernel = Kernel(isa, release, meter="count")
    function, seen = kernel.function("three_args"), set()
    for place in range(4):
        with kernel.attached(function, *(Ops(save="regs" if n == place else "args") for n in range(4))):
            seen.add(kernel.call(function, 1, 2, 3).counts.total)
    assert len(seen) == 1


# --- arguments


def test_what_arguments_cost_is_hooked_minus_unhooked():
    rows = arguments.rows().set_index(["isa", "hook", "args"])
    assert {isa for isa, _, _ in rows.index} == set(ISAS) and {n for _, _, n in rows.index} == set(range(9))
    for isa, hook, args in (("x86_64", "ops-own-regs", 0), ("arm64", "bpf-fentry", 8), ("riscv64", "ops", 5)):
        added = total(isa, hook, args=args) - total(isa, "none", args=args)
        line = rows.loc[(isa, hook, args)]
        assert added.as_dict() == line[list(added.as_dict())].to_dict()
        assert line["bytes_moved"] == added.load_bytes + added.store_bytes


def test_flat_lines_are_told_apart():
    """A hook that moves sixteen bytes more per argument is none any more."""
    rows = arguments.rows()
    n = arguments.numbers(rows)
    assert n["made-lines"] + n["other-lines"] == len(rows) // 9 and n["arm64-ops-8"] == n["arm64-ops-0"]
    here = (rows["isa"] == "arm64") & (rows["hook"] == "ops")
    stepped = rows.assign(
        bytes_moved=rows["bytes_moved"] + here * rows["args"] * 16,
        instructions=rows["instructions"] + here * rows["args"],
    )
    made = arguments.numbers(stepped)
    assert made["arm64-ops-8"] - made["arm64-ops-0"] == 128
    assert made["other-flat"] == n["other-flat"] - 1 and made["other-flat-bytes"] == n["other-flat-bytes"] - 1


def test_no_more_lines_than_can_be_told_apart():
    assert len(arguments.SHOWN) <= 6 and set(arguments.SHOWN) <= set(hooks.HOOKS)


def test_a_direct_call_is_quoted_as_it_really_is():
    """Near, far, or as the allocator has it: one number where there is one case, both where there are two, none before there were
    direct calls."""
    n = single_callback.numbers(single_callback.rows())
    near, far = n["riscv64-direct-v7-2-added"], n["riscv64-direct-far-v7-2-added"]
    assert near < far == n["riscv64-direct-to-modules-v7-2-added"] == n["riscv64-direct-to-bpf-v7-2-added"]
    assert n["riscv64-direct-to-bpf-v6-12-added"] == n["riscv64-direct-v6-12-added"]
    assert n["x86_64-direct-to-bpf-v7-2-added"] == n["x86_64-direct-v7-2-added"]
    assert n["arm64-direct-to-modules-v7-2-added"] == n["arm64-direct-v7-2-added"] < n["arm64-direct-far-v7-2-added"]
    near, far = n["arm64-direct-v7-2-added"], n["arm64-direct-far-v7-2-added"]
    assert n["arm64-direct-to-bpf-v7-2-added"] == f"{near} or {far}"
    assert not [name for name in n if name.startswith("arm64-direct-to-") and "v6-1-" in name]


def test_every_hook_but_probes_has_a_bar():
    assert {hook for hook, _ in single_callback.CASES} == set(hooks.PLAIN)
    assert {h.split("-")[0] for h in set(hooks.HOOKS) - set(hooks.PLAIN)} == {"fgraph", "fprobe", "kprobe", "kretprobe"}
