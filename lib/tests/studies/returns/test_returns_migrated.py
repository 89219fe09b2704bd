"""What a kretprobe's users read under its replacement, what shims cost, and what is left of kprobes: rows, sentences, verdicts."""

import pytest

from support.mutants.mutants import Mutant, broken
from support.plugins.seeds import drawn, seeds
from support.publish.guarded import problem
from tramplab import Kernel, TramplabError
from tramplab.isa import ISAS
from tramplab.returns import migration
from tramplab.returns.migration import BEFORE, FPROBE, MULTI, SHIMS
from tramplab.sparsity.consumers.matrix import RIGHT
from tramplab.vmlinux.saved import saved
from tramplab_book.studies.returns.costs import return_costs
from tramplab_book.studies.returns.migration import kprobe_left, migrated, shims
from tramplab_book.studies.returns.migration.migrated import LOST, SAME

every_isa = pytest.mark.parametrize("isa", ISAS)


@pytest.fixture(scope="module")
def fields():
    return migrated.rows()


@pytest.fixture(scope="module")
def old():
    return shims.rows()


@pytest.fixture(scope="module")
def left():
    return kprobe_left.rows()


def outcome(frame, isa, use, read):
    return frame[(frame["isa"] == isa) & (frame["use"] == use) & (frame["read"] == read)]["outcome"].iloc[0]


# --- Fields


def test_numbers_follow_the_rows(fields):
    n, same = migrated.numbers(fields), migrated.numbers(fields.assign(outcome=SAME))
    assert n["value-same"] == n["value-total"] == same["value-same"] > 10
    assert n["kept-lost"] == n["kept-total"] > 10 and same["kept-lost"] == 0
    assert n["arm64-sp-told"] == n["riscv64-sp-told"] == 0 < n["x86_64-sp-told"]


def test_the_verdict_on_users_follows_the_rows(fields, monkeypatch):
    assert not problem("k5", fields)
    assert "kept-lost == kept-total is not so" in problem("k5", fields.assign(outcome=SAME))
    assert "value-same == value-total is not so" in problem("k5", fields.assign(outcome=LOST))
    before = migrated.older().assign(outcome=SAME)
    monkeypatch.setattr(migrated, "older", lambda: before)
    assert "x86_64-v6-16-kprobe_multi-same == 4 is not so: 8" in problem("k5", fields)


def test_older_releases_lost_what_was_fixed_since():
    """v6.18: the mode, by which callchains start (20a0bc10272f, fd2f74f8f3d3); v7.0: x86-64's stack pointer (8bc11700e0d2)."""
    keys = ["isa", "use", "read"]
    both = migrated.older().merge(migrated.rows(), on=keys, suffixes=("", "_now"))
    other = both[(both["outcome"] == SAME) != (both["outcome_now"] == SAME)]
    other = other[other["use"] == migrated.PROGRAM]
    assert set(zip(other["release"], other["isa"], other["read"], strict=True)) == {
        ("v6.16", "x86_64", "PT_REGS_SP"),
        ("v6.16", "x86_64", "stackid"),
        ("v6.16", "arm64", "stackid"),
        ("v6.18", "x86_64", "PT_REGS_SP"),
    }


def test_debians_trampolines_leave_out_what_the_labs_do():
    seen = migrated.on_debian()
    assert seen.agrees and "7.2-arm64" in seen.said and set(migrated.stack_pointers()["isa"]) == set(ISAS)


@drawn
@every_isa
def test_a_field_that_is_kept_reads_the_same_and_one_that_is_lost_does_not(isa):
    """By other seeds than the rows': what a teller has right is always right, and what it has wrong is not."""
    kernel = migrated.kernel(isa)
    one, other = (seed % 1000 * 2 + n for n, seed in enumerate(seeds(f"fields {isa}", 2)))
    for teller in (BEFORE, FPROBE, MULTI, *SHIMS):
        found = migration.matrix(kernel, teller, (one, other))
        known = migrated.tells(isa, teller)
        handed = migration.samples(kernel, teller, (one, other)).values()
        assert migration.registers(kernel, found, handed) == known.registers
        cells = {cell.consumer.name: cell.outcome for cell in found.cells}
        for field, consumer in migration.CONCLUDED.items():
            assert (cells[consumer] == RIGHT) == bool(known.right[field]), (teller, field)


# --- Shims


def test_a_shim_costs_what_its_functions_execute(old):
    by = old.pivot(index=["isa", "probe", "how"], columns="part", values="instructions")
    for isa in ISAS:
        for probe in shims.PROBES:
            parts = by.loc[isa, probe]
            assert (parts.loc[[BEFORE, FPROBE], shims.SHIM] == 0).all()
            taken = list(parts.loc[list(SHIMS), shims.SHIM])
            assert 0 < taken[0] < taken[1] < taken[2]
            assert (parts.loc[list(SHIMS), shims.HOOK] - parts.loc[FPROBE, shims.HOOK]).abs().max() <= 2
    known = return_costs.totals(return_costs.rows())
    newest = known[known["release"] == shims.LATEST].set_index(["isa", "mechanism"])["instructions"]
    for isa in ISAS:
        assert by.loc[(isa, shims.RETURN, BEFORE), shims.HOOK] == newest[isa, "kretprobe"]


def test_what_is_said_of_shims_follows_the_rows(old):
    n = shims.numbers(old)
    assert n["arm64-value-shim"] < n["arm64-where-shim"] < n["arm64-all-shim"] < n["arm64-all-added"]
    for isa, shim, probe in (("arm64", "fprobe-exit", "kretprobe-brk"), ("riscv64", "fprobe-exit", "kretprobe-brk")):
        before, after = saved.added(isa, shims.LATEST, probe), saved.added(isa, shims.LATEST, shim) + n[f"{isa}-all-shim"]
        assert (after < before) == (isa == "arm64"), "Debian's kernel says otherwise"


def test_unknown_names_are_refused():
    kernel = shims.kernel("arm64")
    for ask in (lambda: migration.request(kernel, "nobody"), lambda: migrated.of_use("arm64", "nothing")):
        with pytest.raises(TramplabError, match=r"nobody|nothing"):
            ask()
    with pytest.raises(TramplabError, match="passes no structure"):
        migration.matrix(kernel, migration.FEXIT)


# --- What is left of kprobes


@every_isa
def test_what_goes_is_what_only_kretprobes_execute(left, isa):
    by = left[left["isa"] == isa].set_index("function")["part"]
    assert by["pre_handler_kretprobe"] == kprobe_left.KRETPROBE and by["get_kprobe"] == kprobe_left.PROBE
    assert by["reenter_kprobe"] == kprobe_left.PROBE and ("kprobe_ftrace_handler" in by) == (isa == "x86_64")
    assert not any("kretprobe" in f or "rethook" in f for f in by.index[by != kprobe_left.KRETPROBE])
    assert all(left["bytes"] > 0)
    gone = kprobe_left.fields()
    assert set(gone[gone["isa"] == isa]["field"]) == {"kretprobe_instances" if isa == "arm64" else "rethooks"}


def test_a_function_of_no_part_is_refused():
    with pytest.raises(TramplabError, match="belongs to no part of a kprobe"):
        kprobe_left._of_breakpoint("something_new")


def test_numbers_of_what_is_left_are_sums_of_the_rows(left):
    n = kprobe_left.numbers(left)
    code = left[left["isa"] == "x86_64"].groupby("part")["bytes"].sum()
    assert n["x86_64-left-share"] == round(1 - code[kprobe_left.KRETPROBE] / code.sum(), 3)
    assert n["x86_64-ftrace"] > 0 == n["arm64-ftrace"] == n["riscv64-ftrace"]
    assert kprobe_left.numbers(left[left["part"] != kprobe_left.FTRACE])["x86_64-ftrace"] == 0


def test_with_the_stack_pointer_stored_the_page_says_it_is_told(tmp_path):
    """What "Change it and see" promises if return_to_handler stores it."""
    frame = "	str	x29, [sp, #OFF_ftrace_regs_fp]\n	mov	x0, sp\n	bl	ftrace_return_to_handler"
    stored = "	add	x9, sp, #SIZEOF_ftrace_regs\n	str	x9, [sp, #OFF_ftrace_regs_sp]\n" + frame
    guest = broken(tmp_path, Mutant("arm64", "v7.2", "", "arm64/fgraph.S", "sp stored", frame, stored))
    right = migration.told(Kernel("arm64", guest=guest), MULTI).right
    assert right["sp"] and right["word"] and not migrated.tells("arm64", MULTI).right["sp"]
