"""Consumers on structures that are filled in part: what they conclude is held against what is known of the kernels."""

import functools

import pytest

from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.sparsity.consumers.matrix import GARBAGE, NOT_ASKED, RIGHT, WRONG, matrix
from tramplab.sparsity.structures.classify import GARBAGE as STALE
from tramplab.sparsity.structures.classify import TRUE
from tramplab.sparsity.structures.registers import register_of
from tramplab.sparsity.structures.views import views

ENTRY = "ftrace_caller"


@functools.cache
def found(isa, release):
    kernel = Kernel(isa, release)
    return {view.name: matrix(kernel, view) for view in views(kernel)}


def outcomes(isa, release, view):
    return {cell.consumer.name: cell.outcome for cell in found(isa, release)[view].cells if cell.outcome != NOT_ASKED}


@pytest.mark.parametrize("release", ["v6.1", "v7.2"])
@pytest.mark.parametrize("isa", ISAS)
def test_after_a_breakpoint_everybody_is_right(isa, release):
    said = outcomes(isa, release, "breakpoint")
    assert set(said.values()) == {RIGHT} and {"user-mode", "callchain", "argument", "emulate-step"} <= set(said)
    assert ("conditions" in said) == (isa != "riscv64"), "there are no condition flags"


@pytest.mark.parametrize("isa", ISAS)
def test_who_reads_true_fields_only_is_right_and_who_reads_none_that_is_filled_is_not(isa):
    """On every structure; what is read besides, on the stack, is there."""
    for name, one in found(isa, "v7.2").items():
        kinds = {field: slot.kind for field, slot in one.frame.slots.items()}
        for cell in one.cells:
            if cell.outcome == NOT_ASKED or cell.consumer.name == "full":
                continue
            read = {kinds[field] for field in cell.fields}
            if read == {TRUE}:
                assert cell.outcome == RIGHT, (name, cell.consumer.name)
            if read == {STALE}:
                assert cell.outcome == GARBAGE, (name, cell.consumer.name)


# What happened: <20250919071902.554223-1-yangfeng59949@163.com>, repaired by fd2f74f8f3d3; of riscv64 nothing was found.


@pytest.mark.parametrize(
    "isa, release, mode",
    [("x86_64", "v6.16", RIGHT), ("arm64", "v6.16", WRONG), ("arm64", "v7.2", RIGHT), ("riscv64", "v7.2", WRONG)],
)
def test_a_kernel_function_in_user_space(isa, release, mode):
    said = outcomes(isa, release, f"{ENTRY}, partial")
    assert said["user-mode"] == mode and set(map(said.get, ("argument", "instruction-pointer", "stack-pointer"))) == {RIGHT}
    assert said["callchain"] == (RIGHT if isa == "arm64" and mode == RIGHT else GARBAGE if isa == "x86_64" else WRONG)


def test_the_bit_of_hardware_registers_is_somebodys_in_flags_that_are_nobodys():
    """aea251799998 sets it in what ftrace_partial_regs() gives; a callchain asks for nothing else of the flags."""
    assert [outcomes("x86_64", r, f"{ENTRY}, partial")["callchain"] for r in ("v6.16", "v7.2")] == [GARBAGE, RIGHT]
    assert outcomes("x86_64", "v7.2", f"{ENTRY}, partial")["interrupts"] == GARBAGE


@pytest.mark.parametrize("isa", ["x86_64", "arm64"])
def test_perfs_own_fill_starts_a_callchain_and_has_no_arguments(isa):
    said = outcomes(isa, "v7.2", f"{ENTRY}, perf")
    assert (said["user-mode"], said["callchain"], said["argument"]) == (RIGHT, RIGHT, WRONG)


@pytest.mark.parametrize("release, partial, full", [("v6.1", RIGHT, RIGHT), ("v7.2", RIGHT, RIGHT)])
def test_on_x86_64_a_pt_regs_is_given_out_if_it_is_full(release, partial, full):
    said = [outcomes("x86_64", release, f"{name}, accessors")["full"] for name in (ENTRY, "ftrace_regs_caller")]
    assert said == [partial, full]


def test_at_the_return_what_the_stack_held_is_taken_for_a_full_set():
    one = found("x86_64", "v7.2")["return_to_handler, accessors"]
    (cell,) = [c for c in one.cells if c.consumer.name == "full"]
    assert (cell.outcome, cell.said, cell.should, cell.fields) == (WRONG, (1,), (0,), ("cs",))
    assert one.frame.slots["cs"].kind == STALE


@pytest.mark.parametrize("isa", ["arm64", "riscv64"])
def test_all_registers_were_never_all(isa):
    """Up to the last release with such a trampoline, it stored no state: Debian's 6.1 for arm64 writes x0 to x29 and no more."""
    one = found(isa, "v6.1")["ftrace_regs_caller, pt_regs"]
    state = {"arm64": "pstate", "riscv64": "status"}[isa]
    assert one.frame.slots[state].kind == STALE and outcomes(isa, "v6.1", "ftrace_regs_caller, pt_regs")["user-mode"] == GARBAGE
    filled = [name for name, slot in one.frame.slots.items() if register_of(ISAS[isa], name) and slot.kind != STALE]
    assert len(filled) >= 31


def test_nothing_is_asked_where_it_has_no_sense():
    said = {name: outcomes("arm64", "v7.2", name) for name in found("arm64", "v7.2")}
    assert "return-value" not in said[f"{ENTRY}, partial"] and "argument" not in said["return_to_handler, partial"]
    assert "user-mode" not in said[f"{ENTRY}, accessors"]
