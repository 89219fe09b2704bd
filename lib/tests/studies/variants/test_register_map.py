"""The register map is found, not declared: against the trampolines' headers, and against trampolines that were spoiled."""

import re

import pytest

from support.abi.abi_places import Place
from support.abi.headers import defined, header_of
from support.publish.guarded import problem
from tramplab.base.errors import TramplabError
from tramplab.emulate.machine import COUNT
from tramplab.isa import ISAS
from tramplab.lab import hooks, sentinels
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.plain import Ops
from tramplab_book.publish import phrases
from tramplab_book.studies.variants.one_callback import register_map
from tramplab_book.studies.variants.one_callback.dropped_saves import restored

#: The trampoline that a hook calls, where it is one that the guest has as a whole.
TRAMPOLINES = {
    "ops": "ftrace_caller",
    "ops-regs": "ftrace_regs_caller",
    "direct": "lab_direct_near",
    "direct-far": "lab_direct_near",  # the same code elsewhere
}
#: Every ISA has them all: those of the newest release, and one that two of them had before.
HOOKS = (
    *("ops", "ops-static", "ops-ip", "ops-live", "ops-clobbered", "ops-own-args", "ops-own-regs", "direct", "direct-far"),
    *("direct+ops", "bpf-fentry", "bpf-fexit", "bpf-fmodret"),
)
#: Of the releases shown, the last whose ops can ask for all registers.
LAST_WITH_REGS = {"x86_64": "v7.2", "arm64": "v6.1", "riscv64": "v6.4"}


@pytest.fixture(scope="module")
def frame():
    return register_map.rows()


@pytest.fixture(scope="module", params=ISAS)
def kernel(request):
    return Kernel(request.param)


def fates(kernel: Kernel, function: str = register_map.FUNCTION) -> dict[str, str]:
    found = sentinels.play(kernel, kernel.function(function), (Ops(),), register_map.ARGUMENTS)
    return {r: register_map.name_of(fate) for r, fate in found.items()}


def instructions(kernel: Kernel) -> tuple[list, list]:
    """The trampoline's instructions in a call, in order: before the callback, and after it; attach first."""
    run = kernel.call(register_map.FUNCTION, 1, 2, 3)
    parts = [run.component_of(s.pc) for s in run.steps]
    at = parts.index("callback")
    own = [
        (n, run.instructions[s.pc])
        for n, (s, part) in enumerate(zip(run.steps, parts, strict=True))
        if part == "trampoline"
    ]
    return [i for n, i in own if n < at], [i for n, i in own if n > at]


def without(kernel: Kernel, i) -> dict[str, str]:
    """The fates with one instruction replaced by a NOP."""
    kernel.machine.poke(i.address, kernel.isa.nops[i.size])
    try:
        return fates(kernel)
    finally:
        kernel.machine.poke(i.address, i.data)


# -- what is found


def test_what_is_stored_is_what_the_headers_say(frame):
    checked = 0
    for (isa, release, hook), part in frame.groupby(["isa", "release", "hook"]):
        if hook in TRAMPOLINES:
            place = Place(isa, release)
            header = header_of(TRAMPOLINES[hook], place)
            stored = set(part["register"][(part["slots"] > 0) & (part["role"] != "flags")])
            assert stored == header.under(header.saves, defined(place)), header
            checked += 1
    assert checked >= 12


def test_every_hook_that_an_isa_has_is_there_with_every_register(frame):
    for name, isa in ISAS.items():
        part = frame[frame["isa"] == name]
        looked_at = dict(zip(part["hook"], part["release"], strict=True))
        assert looked_at.items() >= {**dict.fromkeys(HOOKS, "v7.2"), "ops-regs": LAST_WITH_REGS[name]}.items()
        registers = set(isa.registers) - {isa.sp} | ({sentinels.FLAGS[name].name} if name in sentinels.FLAGS else set())
        assert all(set(lines["register"]) == registers for _, lines in part.groupby("hook"))
    assert not frame.duplicated(["isa", "hook", "register"]).any()
    assert set(frame["fate"]) <= set(register_map.FATES)


def test_nothing_that_function_or_caller_needs_is_lost(frame):
    """Whatever the hook: the three arguments, and what a callee must preserve. A trampoline that calls the function is its
    caller, and has its own caller's registers in its frame."""
    lost = frame[frame["fate"].str.contains("lost")]
    calling = lost["hook"].isin(["bpf-fexit", "bpf-fmodret"])
    needed = ~lost["role"].isin(["argument", "scratch", "flags"])
    assert not (needed & ~calling).any() and set(lost.loc[needed, "fate"]) == {"stored, lost"}
    for name, isa in ISAS.items():
        here = lost[lost["isa"] == name]
        assert not set(here["register"]) & set(isa.args[: register_map.ARGUMENTS])


def test_places_lie_on_the_stack_below_the_function(frame):
    stored = frame[frame["slots"] > 0]
    assert (stored["slot"] < 0).all() and (stored["slot"] % 8 == 0).all() and stored["slot"].min() > -512
    assert frame["slot"].isna().sum() == (frame["slots"] == 0).sum()
    single = stored[~stored["hook"].str.contains(r"\+")].groupby(["isa", "hook", "slot"]).size()
    assert (single == 1).all()


# -- that it can be otherwise


def test_a_restore_taken_out_loses_just_its_registers(kernel):
    tried = 0
    with kernel.attached(kernel.function(register_map.FUNCTION), Ops()):
        whole = fates(kernel)
        for i in instructions(kernel)[1]:
            if registers := restored(kernel.isa, i):
                found = without(kernel, i)
                assert {r for r in whole if found[r] != whole[r]} >= set(registers), i.text
                assert {found[r] for r in registers} == {"shown, lost"} and {whole[r] for r in registers} == {
                    "restored"
                }
                tried += len(registers)
        assert fates(kernel) == whole, "nothing is left behind"
    assert tried == len(kernel.isa.args)


def test_a_store_taken_out_is_a_register_that_nobody_has_saved(kernel):
    isa = kernel.isa
    last = isa.args[-1]
    with kernel.attached(kernel.function(register_map.FUNCTION), Ops()):
        stores = [i for i in instructions(kernel)[0] if i.accesses.stores and re.search(rf"\b{last}\b", i.operands)]
        assert len(stores) == 1
        assert fates(kernel)[last] == "restored" and without(kernel, stores[0])[last] == "lost to hook"


def test_a_callback_that_spoils_nothing_would_hide_what_is_lost(kernel, monkeypatch):
    with kernel.attached(kernel.function(register_map.FUNCTION), Ops()):
        found = fates(kernel)
        monkeypatch.setattr(sentinels, "spoilable", lambda _: ())
        tame = fates(kernel)
    assert [r for r in found if found[r] == "lost to callback" and tame[r] == "kept"]


@pytest.mark.parametrize("function", ["three_args", "eight_args", "struct_return", "no_args"])
def test_a_call_with_sentinels_leaves_no_trace(kernel, function):
    """Registers of the platform, and what later calls do."""

    def state() -> tuple[dict[str, int], int]:
        platform = {r: kernel.machine.register(r) for r in kernel.isa.fixed if r != kernel.isa.sp}
        return platform, kernel.call(function, *range(1, 9)).value

    with kernel.attached(kernel.function(function), Ops()):
        before, first, after = state(), fates(kernel, function), state()
        assert fates(kernel, function) == first
    assert before == after


def test_values_are_told_apart_only_in_a_kernel_that_records():
    kernel = Kernel("arm64", meter=COUNT)
    with pytest.raises(TramplabError, match="meter='record'"):
        fates(kernel)


# -- what is shown


def test_the_figure_says_of_every_register_what_the_rows_say(frame):
    grouped = register_map.grouped(frame)
    spelled = {}
    for line in grouped.itertuples():
        for name in spell(line.registers):
            spelled[line.isa, line.hook, name] = line.fate
    rows = {(r.isa, r.hook, r.register): register_map.FATES[r.fate] for r in frame.itertuples() if not r.hypothetical}
    assert spelled == rows


def test_the_table_says_it_too(frame):
    told = {}
    for line in register_map.table(frame).itertuples():
        for name in spell(line.registers):
            assert (line.isa.split()[0], line.hook, name) not in told
            told[line.isa.split()[0], line.hook, name] = line.fate
    assert told == {(r.isa, phrases.marked(r.hook, r.hypothetical), r.register): r.fate for r in frame.itertuples()}


def spell(text: str) -> list[str]:
    """Ranges as their registers."""
    out = []
    for part in text.split():
        first, _, last = part.partition("-")
        prefix = first.rstrip("0123456789")
        numbers = range(int(first[len(prefix) :]), int(last[len(prefix) :]) + 1) if last else ()
        out += [f"{prefix}{n}" for n in numbers] or [first]
    return out


def test_the_chart_knows_what_each_of_its_words_means():
    assert set(register_map.FATES.values()) == set(register_map.MEANINGS)


def test_a_hook_that_loses_an_argument_refutes_the_finding(frame):
    assert not problem("restores-few-registers", frame)
    lost = frame.assign(fate=[("lost to hook" if (r.hook, r.register) == ("ops", "x1") else r.fate) for r in frame.itertuples()])
    assert "losing-an-argument == 0 is not so: 1 and 0" in problem("restores-few-registers", lost)


def test_hooks_that_fare_alike_have_one_column(frame):
    """All others that kernels have fit, in both layouts."""
    (figure,) = register_map.FIGURES
    drawing = figure.chart(frame)
    assert frame["hook"].nunique() == len(hooks.PLAIN) - 1
    columns: dict[str, list[tuple[str, ...]]] = {}
    for row in register_map.grouped(frame).itertuples():
        columns.setdefault(row.hook, []).append((row.isa, row.registers, row.fate))
    assert set(columns) == set(frame["hook"][~frame["hypothetical"]])
    shown = {row["column"] for row in drawing.rows}
    assert len({tuple(columns[hook]) for hook in shown}) == len(shown) < len(columns)
    assert all(any(columns[hook] == columns[other] for other in shown) for hook in columns)
    assert drawing.svg("narrow") and drawing.svg("wide")


def test_numbers_count_registers(frame):
    n = register_map.numbers(frame)
    part = frame[(frame["isa"] == "arm64") & (frame["hook"] == "ops") & (frame["role"] != "flags")]
    names = ("restored", "kept", "lost-to-callback", "lost-to-hook")
    assert [n[f"arm64-ops-{name}"] for name in names] == [
        (part["fate"] == name.replace("-", " ")).sum() for name in names
    ]
    assert sum(n[f"arm64-ops-{name}"] for name in names) == len(ISAS["arm64"].registers) - 1
