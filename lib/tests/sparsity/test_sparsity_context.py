"""The rewriter on its named programs: what it accepts computes the same on the light structure, and what it refuses it must."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.models.contexts import ISAS, by_name, contexts, elsewhere, place, saved
from tramplab.base.errors import TramplabError
from tramplab.build.dwarf import Field, Struct
from tramplab.sparsity.context import PROGRAMS, Refused, Rewritten, layout, program, rewrite
from tramplab.sparsity.context.encoding import encoded
from tramplab.sparsity.context.layout import Always, At, Layout, Nowhere, light_slots, slots, whole
from tramplab.sparsity.context.programs import offsets, renamed
from tramplab.sparsity.context.refusal import (
    BY_LAYOUT,
    BY_PROGRAM,
    ESCAPE,
    HELPER,
    INVALID,
    NUMBER,
    OUTSIDE,
    PATHS,
    RANGE,
    SPLIT,
    STORE,
    THROUGH,
    UNFILLED,
    VARIABLE,
)
from tramplab.sparsity.context.run import CONTEXT, run
from tramplab.sparsity.context.text import assembled, shown

#: Why a program is refused where ftrace_caller's structure stands for a pt_regs; those that are not here are accepted on every ISA.
WHY = {
    "copied-context": UNFILLED,
    "interrupts": UNFILLED,
    "user-or-kernel": UNFILLED,
    "callee-saved": UNFILLED,
    "scratch": UNFILLED,
    "system-call": UNFILLED,
    "any-argument": VARIABLE,
    "stack-id": HELPER,
    "perf-sample": HELPER,
    "inject-error": HELPER,
    "write-argument": STORE,
    "pointer-in-map": ESCAPE,
    "pointer-as-number": NUMBER,
    "behind-the-end": OUTSIDE,
}
#: As far as the ISAs differ: x86-64's structure is a pt_regs, so that nothing moves in it; arm64's arguments come first in both.
ALSO = {
    ("arm64", "one-load-apart"): PATHS,
    ("riscv64", "one-load-apart"): PATHS,
    ("riscv64", "context-or-stack"): PATHS,
    ("riscv64", "copied-argument"): THROUGH,
}
EVERY = [(isa, name) for isa in ISAS for name in PROGRAMS]
every = pytest.mark.parametrize(("isa", "name"), EVERY)


def written(isa: str, name: str):
    return program(name).on(place(isa).isa, place(isa).pt_regs)


def alike(before, after, of: Layout, rng: random.Random) -> None:
    """One run of each, each on its structure, which lie at different addresses."""
    full, light = contexts(of, rng)
    assert run(before, full) == run(after, light, address=CONTEXT + 0x10_0000)


@every
def test_verdicts_on_what_ftrace_caller_saves(isa, name):
    found = rewrite(written(isa, name), saved(isa))
    assert (found.kind if isinstance(found, Refused) else None) == ALSO.get((isa, name), WHY.get(name))


@every
def test_what_is_accepted_computes_the_same(isa, name):
    for of in (saved(isa), by_name(isa), whole(place(isa).pt_regs), elsewhere(place(isa).pt_regs)):
        before = written(isa, name)
        after = rewrite(before, of)
        if isinstance(after, Refused):
            continue
        rng = random.Random(name)
        for _ in range(20):
            alike(before, after.program, of, rng)


@given(seed=st.integers(0, 1 << 64), isa=st.sampled_from(ISAS), name=st.sampled_from([n for n in PROGRAMS if n not in WHY]))
def test_what_is_accepted_computes_the_same_on_any_registers(seed, isa, name):
    before = written(isa, name)
    after = rewrite(before, saved(isa))
    if isinstance(after, Rewritten):
        alike(before, after.program, saved(isa), random.Random(seed))


@every
def test_only_offsets_change_and_nothing_is_added(isa, name):
    before = written(isa, name)
    for of in (saved(isa), elsewhere(place(isa).pt_regs)):
        after = rewrite(before, of)
        if isinstance(after, Refused):
            continue
        assert len(encoded(after.program)) == len(encoded(before))
        changed = {at for at, (a, b) in enumerate(zip(before, after.program, strict=True)) if a != b}
        assert changed == {c.at for c in after.changes}
        for c in after.changes:
            assert (c.before.opcode, c.before.dst, c.before.src) == (c.after.opcode, c.after.dst, c.after.src)
            assert c.before.off != c.after.off and c.before.imm == c.after.imm


@every
def test_a_program_is_as_it_was_where_all_is_filled_and_in_place(isa, name):
    """Whatever a layout could be to blame for is accepted there, and nothing changes; the rest is refused there too."""
    before = written(isa, name)
    found = rewrite(before, whole(place(isa).pt_regs))
    if WHY.get(name) in BY_PROGRAM:
        assert isinstance(found, Refused) and found.kind == WHY[name]
    else:
        assert isinstance(found, Rewritten) and found.program == before and not found.changes


@every
def test_what_is_refused_for_a_slot_is_accepted_where_that_is_filled(isa, name):
    """And it does read that slot when it runs."""
    before = written(isa, name)
    found = rewrite(before, saved(isa))
    if not isinstance(found, Refused) or found.kind != UNFILLED:
        return
    slot = next(s for s in slots(place(isa).pt_regs) if s.name == found.slot)
    touched = set()
    for seed in range(20):
        touched |= run(before, contexts(whole(place(isa).pt_regs), random.Random(seed))[0]).touched
    assert set(range(slot.offset, slot.offset + slot.size)) <= touched
    filled = rewrite(before, elsewhere(place(isa).pt_regs))
    if name == "copied-context":
        assert filled.kind == THROUGH
    else:
        assert isinstance(filled, Rewritten) and slot.name in filled.reads


@pytest.mark.parametrize("isa", ISAS)
def test_a_slot_that_only_has_the_name_is_not_the_register(isa):
    """riscv64's t1 is in both structures, and ftrace_caller keeps something else there; x86-64's structure has all names."""
    of = {"x86_64": "r11", "riscv64": "t1", "arm64": "regs[0]"}[isa]
    read = next(s for s in slots(place(isa).pt_regs) if s.name == of)
    before = assembled(f"r0 = *(u64 *)(r1 + {read.offset})\nexit")
    assert isinstance(rewrite(before, by_name(isa)), Rewritten)
    assert isinstance(rewrite(before, saved(isa)), Refused) == (isa != "arm64")


def test_a_slot_of_another_size_is_not_the_register():
    light = Struct("light", 16, {"a": Field(0, 4), "b": Field(4, 4), "d": Field(8, 8)})
    of = layout(SMALL, light, dict.fromkeys("abd", "true"))
    assert {s.name: p for s, p in of.places if isinstance(p, At)} == {"b": At(4)}


def test_only_a_struct_that_is_a_pt_regs_has_its_slots():
    same = Struct("light", 40, {"regs": Field(0, 40)})
    more = Struct("light", 48, {"regs": Field(0, 40), "b": Field(40, 4)})
    words = Struct("light", 40, {"regs": Field(0, 40, 5)})
    assert [s.name for s in light_slots(same, SMALL)] == [s.name for s in slots(SMALL)]
    assert [s.name for s in light_slots(more, SMALL)] == ["regs", "b"]
    assert [s.name for s in light_slots(words, SMALL)] == [f"regs[{n}]" for n in range(5)]


@pytest.mark.parametrize(
    ("isa", "release", "offset"),
    [("arm64", "v6.1", 0), ("riscv64", "v6.8", 80), ("riscv64", "v6.12", 40), ("riscv64", "v6.16", 48), ("x86_64", "v7.2", 112)],
)
def test_where_the_first_argument_is_depends_on_the_release(isa, release, offset):
    """Until arm64's v6.2 and riscv64's v6.10 the structure was a pt_regs there too."""
    there = place(isa, release)
    filled = dict.fromkeys([s.name for s in light_slots(there.light, there.pt_regs)], "true")
    after = rewrite(written(isa, "first-argument"), layout(there.pt_regs, there.light, filled, renamed(there.isa)))
    assert shown(after.program[0]) == f"r0 = *(u64 *)(r1 + {offset})"


@pytest.mark.parametrize("isa", ISAS)
def test_reads_are_what_the_program_touches(isa):
    there = place(isa)
    before = written(isa, "six-arguments")
    assert len(rewrite(before, saved(isa)).reads) == 6
    by_slot = {s.name: s for s in slots(there.pt_regs)}
    touched = run(before, bytes(there.pt_regs.size)).touched
    assert touched == {b for n in rewrite(before, saved(isa)).reads for b in range(by_slot[n].offset, by_slot[n].offset + 8)}


@pytest.mark.parametrize(
    ("value", "load", "move"),
    [
        (0x10, "r0 = *(u64 *)(r1 + 136)", "w0 = 16"),
        (0xFFFFFFFF, "r0 = *(u64 *)(r1 + 136)", "w0 = -1"),
        (-5, "r0 = *(u64 *)(r1 + 136)", "r0 = -5"),
        (-5, "r0 = *(u32 *)(r1 + 136)", "w0 = -5"),
        (0x1280, "r0 = *(s8 *)(r1 + 136)", "r0 = -128"),
        (0x1280, "r0 = *(u8 *)(r1 + 137)", "w0 = 18"),
        (0x1280 << 32, "r0 = *(u32 *)(r1 + 140)", "w0 = 4736"),
        (1 << 32, "r0 = *(u64 *)(r1 + 136)", None),
    ],
)
def test_a_constant_that_is_vouched_for_is_moved(value, load, move):
    """cs, whose slot in x86-64's structure holds 0."""
    of, before = saved("x86_64", cs=value), assembled(f"{load}\nexit")
    after = rewrite(before, of)
    if move is None:
        assert after.kind == RANGE and after.slot == "cs"
        return
    assert shown(after.program[0]) == move and len(after.program) == 2
    alike(before, after.program, of, random.Random(0))


SMALL = Struct("pt_regs", 40, {"a": Field(0, 8), "b": Field(8, 4), "c": Field(12, 4), "d": Field(16, 4), "v": Field(24, 16, 2)})


def small(*places, size: int = 4096) -> Layout:
    return Layout(tuple(zip(slots(SMALL), places, strict=True)), SMALL.size, size)


@pytest.mark.parametrize(
    ("text", "places", "kind"),
    [
        ("r0 = *(u64 *)(r1 + 8)", {"b": At(100), "c": At(104)}, None),
        ("r0 = *(u64 *)(r1 + 8)", {"b": At(104), "c": At(100)}, SPLIT),
        ("r0 = *(u64 *)(r1 + 8)", {"b": At(100), "c": Nowhere("")}, UNFILLED),
        ("r0 = *(u64 *)(r1 + 8)", {"b": Always(1), "c": Always(2)}, SPLIT),
        ("r0 = *(u64 *)(r1 + 16)", {"d": At(16)}, OUTSIDE),  # four of these bytes are padding
        ("r0 = *(u32 *)(r1 + 20)", {}, OUTSIDE),
        ("r0 = *(u32 *)(r1 + 2)", {}, OUTSIDE),  # not aligned
        ("r0 = *(u8 *)(r1 - 1)", {}, OUTSIDE),
        ("r0 = *(u64 *)(r1 + 0)", {"a": At(32760)}, None),
        ("r0 = *(u64 *)(r1 + 0)", {"a": At(32768)}, RANGE),
        ("r1 += 100\nr0 = *(u64 *)(r1 - 100)", {"a": At(32768)}, None),
        ("r2 = 24\nr1 += r2\nr0 = *(u64 *)(r1 + 8)", {"v[1]": At(0)}, None),
        ("r2 = 24\nr2 += r1\nr0 = *(u64 *)(r2 + 8)", {"v[1]": At(0)}, None),
        ("r2 = 8\nr1 -= r2\nr0 = *(u64 *)(r1 + 8)", {"a": At(64)}, None),
    ],
)
def test_layouts_that_no_kernel_has(text, places, kind):
    of = small(*(places.get(s.name, At(s.offset)) for s in slots(SMALL)), size=40000)
    before = assembled(f"{text}\nexit")
    after = rewrite(before, of)
    assert (after.kind if isinstance(after, Refused) else None) == kind
    if isinstance(after, Rewritten):
        alike(before, after.program, of, random.Random(text))


def test_errors_name_what_is_near():
    there = place("arm64")
    with pytest.raises(TramplabError, match="unknown context program 'first-argumet'; did you mean first-argument"):
        program("first-argumet")
    with pytest.raises(TramplabError, match=r"unknown slot of ftrace_regs 'regz\[0\]'; did you mean regs\[0\]"):
        layout(there.pt_regs, there.light, {"regz[0]": "true"})
    with pytest.raises(TramplabError, match="unknown verdict 'ture'; did you mean true"):
        layout(there.pt_regs, there.light, {"sp": "ture"})
    with pytest.raises(TramplabError, match="unknown slot of pt_regs 'pstat'; did you mean pstate"):
        layout(there.pt_regs, there.light, {}, promised={"pstat": 5})
    with pytest.raises(TramplabError, match="begins with an instruction"):
        rewrite((), whole(there.pt_regs))
    with pytest.raises(TramplabError, match="instruction 0 calls helper 99, which the rewriter does not know"):
        rewrite(assembled("call 99\nexit"), whole(there.pt_regs))


def test_reasons_are_of_one_sort():
    assert not set(BY_LAYOUT) & set(BY_PROGRAM)
    assert {*WHY.values(), *ALSO.values(), SPLIT, RANGE, INVALID} == {*BY_LAYOUT, *BY_PROGRAM}


@pytest.mark.parametrize("isa", ISAS)
def test_names_in_programs_are_those_of_the_convention(isa):
    """Arguments and result against the ISA's own record, by where the guest's struct has them."""
    there = place(isa)
    by_offset = {s.offset: s.name for s in slots(there.pt_regs)}
    named = {name: by_offset[at] for name, at in offsets(there.isa, there.pt_regs).items() if name != "size"}

    def register(name: str) -> str:
        """As pt_regs calls it."""
        if isa == "arm64":
            return f"regs[{name[1:]}]"
        return name.removeprefix("r") if name[1:].isalpha() else name

    assert [named[f"argument{n}"] for n in range(1, 7)] == [register(r) for r in there.isa.args[:6]]
    assert named["result"] == register(there.isa.returns[0]) and named["frame"] == register(there.isa.fp)
    assert named["saved"] in [register(r) for r in there.isa.callee_saved]
    assert named["scratch"] in [register(r) for r in there.isa.scratch]
