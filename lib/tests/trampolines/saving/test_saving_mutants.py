"""Negative controls for trampolines of given save sets: without any one of their lines something goes wrong."""

import dataclasses

import pytest

from support.abi import abi, abi_places
from support.mutants.spoiled import spoiling
from tramplab import Kernel, Ops, TramplabError
from tramplab.isa import ISAS
from tramplab.trampolines import saving
from tramplab.trampolines.plain.request import SETS_IP, SETS_SP
from tramplab.trampolines.saving import maker
from tramplab.trampolines.saving.assembly import Code
from tramplab.unwind.unwind import BOTH, judge, watch

#: What new_two_args(1, 2) returns (guest/consumers/replacements.c).
NEW_TWO = 1 * 29 + 2 * 31 + (1 << 40)


def _lab(isa: str, release: str = "v7.2", **overrides) -> abi.Lab:
    return abi.Lab(abi_places.Place(isa, release, tuple(overrides.items())))


_NOPS = (".byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0",) * 2  # slots for what these machines need not do
#: Lines that no call misses: registers that C keeps, so that loading them again changes nothing unless a callback wrote
#: there; stores that only a callback reads which wants that register; marks for direct calls and for readers of a pt_regs.
HARMLESS = {
    **{("x86_64", save): _NOPS for save in saving.SETS},
    ("arm64", "own-args"): ("str xzr, [sp, #72]",),  # direct_tramp, which this exit does not ask
    ("x86_64", "own-args"): (*_NOPS, "mov qword ptr [rsp + 120], 0", "mov rbp, [rsp + 32]"),
    ("x86_64", "own-regs"): (
        *_NOPS,
        *(
            f"mov {r}, [rsp + {at}]"
            for r, at in (("rbp", 32), ("r12", 24), ("r13", 16), ("r14", 8), ("r15", 0), ("rbx", 40))
        ),
        "mov [rsp + 48], r11",
        "mov qword ptr [rsp + 120], 0",
        *(line for at, mark in ((160, 24), (136, 16)) for line in (f"mov rcx, {mark}", f"mov [rsp + {at}], rcx")),
        "mov [rsp + 168], rax",  # the flags, which lie there already
    ),
    ("arm64", "own-regs"): (
        *(f"stp x{n}, x{n + 1}, [sp, #{112 + 8 * (n - 10)}]" for n in range(10, 28, 2)),
        "str x28, [sp, #256]",
        "str xzr, [sp, #72]",
    ),
    ("riscv64", "own-args"): ("sd zero, 32(sp)", "ld s0, 24(sp)"),
    ("riscv64", "own-regs"): (
        "ld s0, 24(sp)",
        *(f"ld {r}, {152 + 8 * n}(sp)" for n, r in enumerate(("gp", "tp", *(f"s{i}" for i in range(1, 12))))),
    ),
}


def _mutants(parts: Code):
    """Every line of a trampoline's text, and the text without it."""
    for part in ("before", "after"):
        lines = getattr(parts, part).splitlines()
        for n, line in enumerate(lines):
            yield line, dataclasses.replace(parts, **{part: "\n".join([*lines[:n], *lines[n + 1 :]])})


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("save", saving.SETS)
def test_every_line_is_needed(isa, monkeypatch, save):
    """A trampoline without one of its lines does something wrong, but for the lines that are known to be harmless."""
    lab = _lab(isa)
    parts = saving.code(lab.kernel.image, lab.kernel.features, save, ("big_struct_return", "eight_args"))
    survivors = []
    for line, mutant in _mutants(parts):
        monkeypatch.setattr(maker, "code", lambda *_, mutant=mutant: mutant)
        if _survives(isa, save):
            survivors.append(line)
    assert sorted(survivors) == sorted(HARMLESS.get((isa, save), ()))


@pytest.mark.parametrize("isa", ISAS)
def test_what_is_done_to_flags_and_modes_is_noticed(isa, monkeypatch):
    """Around the call of the callback."""
    lab = _lab(isa)
    parts = saving.code(lab.kernel.image, lab.kernel.features, "ip", ())
    for what, before, behind in spoiling(isa):
        mutant = Code(f"{parts.before}\n{before}", f"{behind}\n{parts.after}")
        monkeypatch.setattr(maker, "code", lambda *_, mutant=mutant: mutant)
        assert not _survives(isa, "ip"), what


def _survives(isa: str, save: str) -> bool:
    """Does nothing go wrong: registers, what callbacks see, frame records, and calls that are sent on elsewhere?"""
    lab = _lab(isa)
    k = lab.kernel
    f = k.function("two_args")
    try:
        with k.attached(None, abi_places.observing(save=save)) as registered, abi.Hooked(lab, save, registered).watched() as hooked:
            for seed in range(1, 13):
                hooked.check(seed)
        k.machine.set_meter("record")
        if isa == "arm64":
            with k.attached(f, Ops(save=save)):
                assert _found(k) == {(BOTH, "")}
        if save in SETS_IP:
            with k.attached(f, Ops(save=save, callback="lab_livepatch", go_to="new_two_args")):
                assert k.call(f, 1, 2, budget=abi.BUDGET).value == NEW_TWO
        if save in SETS_SP:
            with k.attached(f, Ops(save=save, callback="lab_call_instead", go_to="new_two_args")):
                assert k.call(f, 1, 2, budget=abi.BUDGET).value == NEW_TWO
            assert k.machine.read_u64(k.image.address("lab_returns")) == 1
    except (AssertionError, TramplabError):
        return False
    return True


# -- frame records


@pytest.mark.parametrize("save", saving.SETS)
@pytest.mark.parametrize(("isa", "overrides"), [("x86_64", {"frame_pointer": True}), ("arm64", {})])
def test_the_callback_sees_function_and_caller_by_frame_pointers(isa, overrides, save):
    k = Kernel(isa, **overrides)
    with k.attached(k.function("two_args"), Ops(save=save)):
        assert _found(k) == {(BOTH, "")}


def _found(k: Kernel) -> set[tuple[str, str]]:
    """What an unwinder by frame pointers finds of two_args and its caller while the callback runs."""
    run, boundaries = watch(k, k.function("calls_others"), k.function("two_args"), 1, 2, 3)
    inside = [b for b in boundaries if run.component_of(b.plain.addresses[0]) == "callback"]
    seen = [judge(b.plain, b.truth, "two_args", "calls_others", run.name_of) for b in inside]
    return {(v.found, v.wrong) for v in seen}


@pytest.mark.parametrize("save", saving.SETS)
@pytest.mark.parametrize("release", ["v5.17", "v6.12", "v7.2"])
def test_with_frame_pointers_the_calling_convention_survives(release, save):
    lab = _lab("x86_64", release, frame_pointer=True)
    with lab.kernel.attached(None, abi_places.observing(save=save)) as made, abi.Hooked(lab, save, made).watched() as hooked:
        for seed in range(20):
            hooked.check(seed)
