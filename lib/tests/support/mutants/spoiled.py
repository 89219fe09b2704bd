"""Trampolines that do something to the CPU besides its general registers, in rooms around the calls of their callbacks."""

from collections.abc import Iterator
from pathlib import Path

from support.mutants.mutants import copied, replace
from tramplab.isa import ISAS, Isa

#: ISA -> what a trampoline might do to the CPU besides its general registers, in front of the call of its callback, and what takes
#: that back behind the call, "" where nothing need. riscv64 has floating point off, and an exception where somebody sets how it
#: rounds.
SPOILED: dict[str, dict[str, tuple[str, str]]] = {
    "x86_64": {
        "strings go backwards": ("std", "cld"),
        "interrupts off": ("cli", "sti"),
        "interrupts on": ("sti", "cli"),
        "user memory open": ("pushfq; bts qword ptr [rsp], 18; popfq", "pushfq; btr qword ptr [rsp], 18; popfq"),
        "SSE rounds up": ("push 0x5f80; ldmxcsr [rsp]; add rsp, 8", ""),
        "x87 rounds up": ("push 0xb7f; fldcw [rsp]; add rsp, 8", ""),
    },
    "arm64": {
        "interrupts off": ("msr daifset, #2", "msr daifclr, #2"),
        "interrupts on": ("msr daifclr, #2", "msr daifset, #2"),
        "debug exceptions off": ("msr daifset, #8", "msr daifclr, #8"),
        "rounds up": ("mov x10, #0x400000; msr fpcr, x10", ""),
    },
    "riscv64": {
        "interrupts off": ("csrci sstatus, 2", "csrsi sstatus, 2"),
        "interrupts on": ("csrsi sstatus, 2", "csrci sstatus, 2"),
        "user memory open": ("lui t3, 0x40; csrs sstatus, t3", "lui t3, 0x40; csrc sstatus, t3"),
        "rounds up": ("csrwi frm, 3", ""),
    },
}


def spoiling(isa: str) -> Iterator[tuple[str, str, str]]:
    """What is done, in front of the call, and behind it: from there on, and only while the callback runs."""
    for what, both in SPOILED[isa].items():
        before, behind = (code.replace("; ", "\n") for code in both)
        yield f"{what} from the callback on", before, ""
        if behind:
            yield f"{what} in the callback", before, behind


#: Room for these, in front of a call and behind it: so many NOPs, of the smallest size.
ROOM = {"x86_64": 24, "arm64": 3, "riscv64": 6}
_REGISTER = "\tld\tra, OFF_ftrace_ops_func(a2)\n\tmv\ta3, sp\n\tjalr\tra\n"
#: ISA -> a release of which the trampolines are given room, and hook -> the trampoline, its file, and how it calls its callback; of
#: x86-64's those that ops have in common.
ROOMS: dict[str, tuple[str, dict[str, tuple[str, str, str]]]] = {
    "x86_64": (
        "v6.1",
        {
            "ops-x2": ("ftrace_caller", "x86_64/ftrace_caller.S", "\tcall_tracer ftrace_call\n"),
            "ops+ops-regs": ("ftrace_regs_caller", "x86_64/ftrace_caller.S", "\tcall_tracer ftrace_regs_call\n"),
            "direct": ("lab_direct_near_observe", "x86_64/direct.S", "\tcall\t\\callback\n"),
        },
    ),
    "arm64": (
        "v7.2",
        {
            "ops": ("ftrace_caller", "arm64/ftrace_caller_args.S", "\tblr\tx4\n"),
            "direct": ("lab_direct_near_observe", "arm64/direct.S", "\tbl\t\\callback\n"),
        },
    ),
    "riscv64": (
        "v7.2",
        {
            "ops": ("ftrace_caller", "riscv64/ftrace_caller_args.S", _REGISTER),
            "direct": ("lab_direct_near_observe", "riscv64/direct.S", "\tcall\t\\callback\n"),
        },
    ),
}


def with_room(folder: Path, isa: str) -> Path:
    """The sources of a guest whose trampolines have room around the calls of their callbacks."""
    guest, nops = copied(folder), f"\t.byte\t{', '.join(map(hex, filled(ISAS[isa], b'')))}\n"
    for _, file, call in ROOMS[isa][1].values():
        replace(guest / file, call, nops + call + nops)
    return guest


def filled(isa: Isa, code: bytes) -> bytes:
    """A room with this code in it."""
    nop = isa.nops[min(isa.nops)]
    return code + nop * (ROOM[isa.name] - len(code) // len(nop))
