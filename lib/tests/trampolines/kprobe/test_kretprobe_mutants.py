"""What of the kretprobes' code is needed: every instruction of the return trampolines that fprobes do not have, and lines of the
core, by breaking one after the other."""

import pytest

from support.abi import abi, abi_places, kretprobe_abi
from support.abi.kprobe_abi import slot
from support.abi.returned import CPU_STATE, reloads_what_nobody_misses, returned, state_told
from support.mutants.mutants import of, survivors
from tramplab import TramplabError

#: What a handler is told at the return where less is saved than all registers, beside the frame pointer.
VALUE = {"x86_64": "rax rdx rsp", "arm64": " ".join(f"x{n}" for n in range(8)), "riscv64": "a0 a1"}
ARGS = {
    "x86_64": "rax rdx rcx rsi rdi r8 r9 rsp",
    "arm64": VALUE["arm64"] + " x8 sp",
    "riscv64": " ".join(f"a{n}" for n in range(8)) + " t1 sp",
}
#: And where all are: all but the way back; riscv64's trampoline has stored sp only since v6.10.
UNTOLD = {"x86_64": {"rip"}, "arm64": {"x30"}, "riscv64": set()}


def complain(h: kretprobe_abi.KretprobeHooked, seed: int) -> list[str]:
    """What is wrong with what the handler at a return was told, and with what the caller finds."""
    first, last = returned(h, h._trampoline, seed)
    isa, k, m = h.isa, h.kernel, h.machine
    regs = h._observed + 8 * (h._words * (m.read_u64(h._count) - 1) + h._at["regs"])
    save = k.features["return_save"]
    told = {*isa.registers} - UNTOLD[isa.name] - ({"sp"} if isa.name == "riscv64" and not k.features["rethook_sp"] else set())
    if save != "regs":
        told = {*{"args": ARGS, "value": VALUE}[save][isa.name].split(), isa.fp}
    seen = {r: m.read_u64(regs + 8 * slot(k, r)) for r in told} | (state_told(h, regs) if save == "regs" else {})
    wrong = [f"told {r}" for r, value in seen.items() if value != first[r]]
    kept = {*isa.callee_saved, *isa.returns, isa.sp, *(isa.args if save == "regs" else told), *(seen.keys() & {CPU_STATE})}
    return wrong + [f"left {r}" for r in [*isa.registers, CPU_STATE] if r in kept and last[r] != first[r]]


def noticed(lab: abi.Lab, hook: str) -> bool:
    """Does the check find something wrong?"""
    try:
        with kretprobe_abi.hooked(lab, hook) as h:
            for seed, name in enumerate(("three_args", "calls_others", "big_struct_return", "tail_call", "struct_return"), 2):
                h.check(seed, name)
            return any(complain(h, seed) for seed in (2, 4))
    except (AssertionError, TramplabError):
        return True


def place(isa: str, release: str, **overrides: str) -> abi_places.Place:
    return abi_places.Place(isa, release, tuple(overrides.items()))


FRAME = "only who unwinds from inside a handler reads it"
BACK = "the way back and pc are what the handler says"
#: Instructions that no check notices, and why; beside reloads of what C keeps for its caller, or of what no caller expects back.
_FULL = {"add x29, sp, #0xe8": FRAME, "and x0, x0, #0xf0000000": "the flags are all that MSR takes up"}
#: Where a return trampoline is tried, by which hook, and the same of it.
RETURNS: dict[abi_places.Place, tuple[str, dict[str, str]]] = {
    place("x86_64", "v5.17"): ("kretprobe", {}),
    place("x86_64", "v7.2", return_save="args"): ("kretprobe", {}),
    place("x86_64", "v7.2", return_save="value"): ("kretprobe", {}),
    place("arm64", "v6.1"): ("kretprobe-brk", _FULL),
    place("arm64", "v7.2"): ("kretprobe-brk", {"brk #0x800": "nobody comes to it"}),
    place("arm64", "v7.2", return_save="args"): ("kretprobe-brk", {"str xzr, [sp, #0x100]": BACK, "add x29, sp, #0xe8": FRAME}),
    place("arm64", "v7.2", return_save="value"): ("kretprobe-brk", {"str x30, [sp, #0xf0]": BACK, "add x29, sp, #0xe8": FRAME}),
    place("riscv64", "v7.2"): ("kretprobe-brk", {}),
    place("riscv64", "v7.2", return_save="args"): ("kretprobe-brk", {"c.sdsp ra, 8(sp)": BACK, "c.addi4spn s0, sp, 0x120": FRAME}),
    place("riscv64", "v7.2", return_save="value"): ("kretprobe-brk", {"c.sdsp ra, 8(sp)": BACK, "c.addi4spn s0, sp, 0x120": FRAME}),
}


@pytest.mark.parametrize("tried", RETURNS, ids=str)
def test_every_instruction_of_a_return_trampoline_is_needed(tried):
    """One after the other is a NOP."""
    lab, (hook, harmless) = abi.Lab(tried), RETURNS[tried]
    assert not noticed(lab, hook)
    name = next(n for n in ("__kretprobe_trampoline", "arch_rethook_trampoline") if n in lab.kernel.image.symbols)
    survived = survivors(tried, (name,), lambda lab: noticed(lab, hook))
    assert {text for text in survived if not reloads_what_nobody_misses(lab.isa, text)} == set(harmless)


RP = "core/kretprobe.c"
MUTANTS = [
    *of(
        "x86_64",
        "v5.17",
        "kretprobe",
        "x86_64/rethook.S",
        ("flags passed over", "\t\t\t/* flags */\n\tpopfq\n", "\n\tleaq\t8(%rsp), %rsp\n"),
    ),
    *of(
        "x86_64",
        "v7.2",
        "kretprobe",
        "x86_64/rethook.S",
        ("flags passed over", "\t\t\t/* flags, sp */\n\tpopfq\n", "\n\tleaq\t8(%rsp), %rsp\n"),
    ),
    *of(
        "riscv64",
        "v7.2",
        "kretprobe-brk",
        "riscv64/rethook.S",
        ("no stack pointer", "\tsd\ta0, OFF_pt_regs_sp(sp)\n#endif", "#endif"),
        ("the stack pointer of the frame", "RETHOOK_SP\n\taddi\ta0, sp, SIZEOF_pt_regs\n", "RETHOOK_SP\n\tmv\ta0, sp\n"),
    ),
    *of(
        "arm64",
        "v7.2",
        "kretprobe-brk-both",
        RP,
        ("the instance kept", "	if (likely(rp))\n		lab_instance_put(ri, rp);\n", "	(void)rp;\n"),
        ("the way back not kept", "	ri->ret_addr = *place;\n	ri->fp", "	ri->fp"),
        ("the return not hooked", "	*place = (unsigned long)__kretprobe_trampoline;\n", ""),
        ("another frame", "ri->fp = lab_return_frame(regs);", "ri->fp = *place;"),
        ("the list not taken up", "	ri->next = current->kretprobe_instances;\n", "	ri->next = 0;\n"),
        ("not on the list", "	current->kretprobe_instances = ri;\n	return 0;", "	return 0;"),
        ("the newest taken for the oldest", "ri && ri->ret_addr == (unsigned long)__kretprobe_trampoline", "0"),
        ("the handlers told the trampoline", "			ri->ret_addr = back;\n", ""),
        ("the kretprobe not named", "			this_pcpu->current_kprobe = &rp->kp;\n			ri", "			ri"),
        ("handlers of the first alone", "		if (ri == oldest)\n			break;", "		break;"),
        ("the list left", "	current->kretprobe_instances = oldest->next;\n", ""),
        ("busy for good", "	this_pcpu->current_kprobe = 0;\n	preempt_enable_notrace();\n}", "	preempt_enable_notrace();\n}"),
        ("not told from others", "trap_ip(regs) != (unsigned long)__kretprobe_trampoline", "1"),
    ),
    *of(
        "x86_64",
        "v5.17",
        "kretprobe-both",
        RP,
        ("the word left", "	*(unsigned long *)frame = back;		/* the word that the trampoline began with */\n", ""),
        ("sp as it is", "	regs->sp += sizeof(long);\n", ""),
        ("flags not moved", "	regs->sp = regs->flags;			/* where they are popped from */\n", "	regs->sp = ~0UL;\n"),
        ("a frame further down", "*frame = &regs->ss;", "*frame = &regs->sp;"),
    ),
    *of(
        "x86_64",
        "v7.2",
        "kretprobe-both",
        RP,
        ("nobody's turn", "	this_pcpu->current_kprobe = &rp->kp;\n	this", "	this"),
        ("its turn for good", "*)node, regs);\n	this_pcpu->current_kprobe = 0;\n", "*)node, regs);\n"),
        ("declined all the same", "ri, regs))\n		rethook_recycle", "ri, regs) + 1)\n		rethook_recycle"),
    ),
    *of(
        "x86_64",
        "v7.2",
        "kretprobe-several",
        "core/kprobe.c",
        ("one of several", "		SET_INSTANCE(0);\n	}\n	return 0;", "		SET_INSTANCE(0);\n		break;\n	}\n	return 0;"),
        ("the oldest left out", "kp; kp = READ_ONCE(kp->list)) {", "kp->list; kp = READ_ONCE(kp->list)) {"),
        ("those that are there left out", "likely(!(kp->flags & (", "likely((kp->flags & ("),
        ("the one that stands for them named", "kp->pre_handler(kp, regs)", "kp->pre_handler(p, regs)"),
    ),
    *of(
        "riscv64",
        "v7.2",
        "kretprobe-brk-both",
        "core/rethook.c",
        ("the way back not kept", "	node->ret_addr = *place;\n", ""),
        ("another frame", "	node->frame = lab_return_frame(regs);\n", "	node->frame = 0;\n"),
        ("the return not hooked", "	*place = (unsigned long)arch_rethook_trampoline;\n", ""),
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_of_the_core_is_caught(mutant, mutated):
    assert noticed(mutated(mutant), mutant.hook)
