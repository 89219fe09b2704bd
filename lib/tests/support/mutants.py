"""Lab kernels with one broken line each, and where its effect is looked for."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.abi_places import Place
from tramplab.build.toolchain import GUEST
from tramplab.isa import ISAS, Isa


@dataclass(frozen=True)
class Mutant:
    """One replacement in one file, and where its effect is looked for. old must occur exactly once. single: the way of a kernel
    that has one ops for all direct calls. overrides: features of its release that are set by hand."""

    isa: str
    release: str
    hook: str
    file: str
    what: str
    old: str
    new: str
    single: str = ""
    overrides: tuple[tuple[str, object], ...] = ()

    @property
    def place(self) -> Place:
        """The kernel it is of."""
        return Place(self.isa, self.release, (*self.overrides, *((("single", self.single),) if self.single else ())))

    def __str__(self) -> str:
        return f"{self.place}-{self.hook}-{self.what.replace(' ', '_')}"


def of(isa: str, release: str, hook: str, file: str, *changes: tuple[str, str, str], **kernel) -> list[Mutant]:
    return [Mutant(isa, release, hook, file, *change, **kernel) for change in changes]


X86 = "x86_64/ftrace_caller.S"
MUTANTS = [
    # x86-64: the common trampoline, and through the template its per-ops copies
    *of(
        "x86_64",
        "v7.2",
        "ops",
        X86,
        ("r8 not stored", "\tmovq\t%r8, R(r8)\n", ""),
        ("rax not stored", "\tmovq\t%rax, R(ax)\n", ""),
        ("r9 not restored", "\tmovq\tR(r9), %r9\n", ""),
        ("rcx restored from rdx's slot", "\tmovq\tR(cx), %rcx\n", "\tmovq\tR(dx), %rcx\n"),
        ("rdi and rsi swapped", "R(di), %rdi\n\tmovq\tR(si), %rsi\n", "R(si), %rdi\n\tmovq\tR(di), %rsi\n"),
        (
            "frame 8 bytes short",
            "\taddq\t$(FRAME + FIXUP), %rsp\nLABEL(ftrace_caller_end)",
            "\taddq\t$(FRAME + FIXUP - 8), %rsp\nLABEL(ftrace_caller_end)",
        ),
        ("ip off by one", "\tsubq\t$5, %rdi\t", "\tsubq\t$4, %rdi\t"),
        ("no parent ip", "\tmovq\t(FRAME + FIXUP + \\flags + 8)(%rsp), %rsi\t/* parent ip */\n", ""),
        ("no mark of a partial frame", "\tmovq\t$0, R(cs)\n", ""),
        ("ip slot not written", "\tmovq\t%rdi, R(ip)\n", ""),
        (
            "sp slot off by a word",
            "\tleaq\t(FRAME + FIXUP + \\flags + 8)(%rsp), %rcx\t",
            "\tleaq\t(FRAME + FIXUP + \\flags)(%rsp), %rcx\t",
        ),
        (
            "wrong frame passed",
            "\tmovq\t%rsp, %rcx\n#ifdef CONFIG_X86_CALL_DEPTH_SLOTS\n\t.nops\t10\n#endif\n\tcall_tracer ftrace_call",
            "\tleaq\t8(%rsp), %rcx\n\tcall_tracer ftrace_call",
        ),
    ),
    # x86-64 with the callsite's ops, which no kernel has
    *of(
        "x86_64",
        "v7.2",
        "ops",
        X86,
        ("site not rounded down to the function", "\tandq\t$-8, %rdx\n", ""),
        ("word of the ops not loaded", "\tmovq\t-8(%rdx), %rdx\n", "\tleaq\t-8(%rdx), %rdx\n"),
        ("word behind that of the ops", "\tmovq\t-8(%rdx), %rdx\n", "\tmovq\t(%rdx), %rdx\n"),
        overrides=(("call_ops", True),),
    ),
    *of(
        "x86_64",
        "v6.1",
        "ops-regs",
        X86,
        ("rbx not stored", "\tmovq\t%rbx, R(bx)\n", ""),
        ("r15 not stored", "\tmovq\t%r15, R(r15)\n", ""),
        ("r10 not restored", "\tmovq\tR(r10), %r10\n", ""),
        ("r12 restored from r13's slot", "\tmovq\tR(r12), %r12\n", "\tmovq\tR(r13), %r12\n"),
        (
            "flags left on the stack",
            "\tpopfq\nLABEL(ftrace_regs_caller_end)",
            "LABEL(ftrace_regs_caller_end)",
        ),
        ("cs not written", "\tmovq\t$0x10, R(cs)\n", "\tmovq\t$0, R(cs)\n"),
    ),
    *of(
        "x86_64",
        "v6.12",
        "direct+ops",
        X86,
        ("flags over the way out", "%rcx, (FRAME + FIXUP - 8)(%rsp)\n", "%rcx, (FRAME + FIXUP)(%rsp)\n"),
        ("direct exit a word too deep", "\taddq\t$(FRAME + FIXUP - 8), %rsp\n", "\taddq\t$(FRAME + FIXUP), %rsp\n"),
        ("rebalancing call undone twice", "2:\taddq\t$8, %rsp\n", "2:\taddq\t$16, %rsp\n"),
        ("direct call not taken", "\tjnz\t1f\n", "\tjnz\t2f\n2:\n"),
    ),
    *of(
        "x86_64",
        "v7.2",
        "direct",
        "x86_64/direct.S",
        ("stub does not store r9", "\tmovq\t%r9, 40(%rsp)\n", ""),
        ("stub does not restore rdx", "\tmovq\t16(%rsp), %rdx\n", ""),
        ("stub returns to the caller", "\taddq\t$48, %rsp\n", "\taddq\t$56, %rsp\n"),
    ),
    # arm64: over a pt_regs, up to v6.1
    *of(
        "arm64",
        "v6.1",
        "ops",
        "arm64/ftrace_caller_regs.S",
        ("x2 and x3 not stored", "\tstp\tx2, x3, [sp, #X(2)]\n", ""),
        ("x8 not restored", "\tldr\tx8, [sp, #X(8)]\n", ""),
        ("x4 and x5 swapped", "\tldp\tx4, x5, [sp, #X(4)]\n", "\tldp\tx5, x4, [sp, #X(4)]\n"),
        ("x29 not restored", "\tldr\tx29, [sp, #X(29)]\n", ""),
        ("x30 from x29's slot", "\tldr\tx30, [sp, #X(30)]\n", "\tldr\tx30, [sp, #X(29)]\n"),
        ("frame 16 bytes short", "\tadd\tsp, sp, #FRAME\n", "\tadd\tsp, sp, #(FRAME - 16)\n"),
        ("ip off by an instruction", "\tsub\tx0, x30, #4\t", "\tsub\tx0, x30, #8\t"),
        ("no parent ip", "\tmov\tx1, x9\t", "\tmov\tx1, x30\t"),
        ("sp slot below the frame", "\tadd\tx10, sp, #FRAME\n", "\tmov\tx10, sp\n"),
    ),
    *of(
        "arm64",
        "v5.17",
        "ops-static-regs",
        "arm64/ftrace_caller_regs.S",
        ("wrong ops passed", "ldr\tx2, [x2, #:lo12:function_trace_op]", "add\tx2, x2, #:lo12:function_trace_op"),
    ),
    # arm64: the callsite's ops
    *of(
        "arm64",
        "v7.2",
        "ops",
        "arm64/ftrace_caller_args.S",
        ("x6 and x7 not stored", "\tstp\tx6, x7, [sp, #X(6)]\n", ""),
        ("x0 and x1 not restored", "\tldp\tx0, x1, [sp, #X(0)]\n", ""),
        ("x2 and x3 from a wrong slot", "\tldp\tx2, x3, [sp, #X(2)]\n", "\tldp\tx2, x3, [sp, #X(4)]\n"),
        ("x0 and x1 swapped", "\tldp\tx0, x1, [sp, #X(0)]\n", "\tldp\tx1, x0, [sp, #X(0)]\n"),
        ("lr not restored", "\tldr\tx30, [sp, #OFF_ftrace_regs_lr]\n", ""),
        ("frame 16 bytes too deep", "\tadd\tsp, sp, #FRAME\n\tret\tx9\n", "\tadd\tsp, sp, #(FRAME + 16)\n\tret\tx9\n"),
        ("literal of another function", "\tldr\tx11, [x11, #-16]\n", "\tldr\tx11, [x11, #-8]\n"),
        ("ip of the first instruction", "\tsub\tx0, x30, #4\t", "\tsub\tx0, x30, #8\t"),
        ("no parent ip", "\tmov\tx1, x9\t", "\tmov\tx1, xzr\t"),
        ("direct_tramp not cleared", "\tstr\txzr, [sp, #OFF_ftrace_regs_direct_tramp]\t", "\tnop\t"),
    ),
    *of(
        "arm64",
        "v6.4",
        "direct+ops",
        "arm64/ftrace_caller_args.S",
        ("link registers not put back", "\tldr\tx9, [sp, #OFF_ftrace_regs_lr]\n\tldr\tx30, [sp, #OFF_ftrace_regs_pc]\n", ""),
        ("late check left out", "\tcbnz\tx17, ftrace_caller_direct_late\n", ""),
    ),
    *of(
        "arm64",
        "v6.12",
        "direct",
        "arm64/direct.S",
        ("stub does not store x8", "\tstr\tx8, [sp, #80]\n", ""),
        ("stub does not put x30 back", "\tldp\tx29, x30, [sp], #16\n\tret\tx10", "\tldr\tx29, [sp], #16\n\tret\tx10"),
    ),
    # riscv64: the 16-byte site
    *of(
        "riscv64",
        "v6.1",
        "ops",
        "riscv64/ftrace_caller_detour16.S",
        ("ra not stored", "\targs\tsd, 0\n\tsd\tra, ABI_RA(sp)\n", "\targs\tsd, 0\n"),
        ("arguments not restored", "\targs\tld, 0\n", ""),
        ("the site's word forgotten", "\taddi\tsp, sp, ABI_FRAME\n\taddi\tsp, sp, 8\n", "\taddi\tsp, sp, ABI_FRAME\n"),
        ("ip of an 8-byte site", "#define SITE 12", "#define SITE 8"),
        ("no parent ip", "\tld\ta1, ABI_FRAME(sp)\t\t/* parent ip */\n", ""),
    ),
    *of(
        "riscv64",
        "v6.1",
        "ops-regs",
        "riscv64/ftrace_caller_detour16.S",
        ("parent's ra not put back", "\tsd\tt0, PT(sp)\n", "\tsd\tzero, PT(sp)\n"),
        ("sp slot below the site's word", "\taddi\tt0, sp, (PT + 8)\n", "\taddi\tt0, sp, PT\n"),
    ),
    # riscv64: the 8-byte site
    *of(
        "riscv64",
        "v6.4",
        "ops",
        "riscv64/ftrace_caller_regs.S",
        ("ra not stored", "\tsd\tra, ABI_RA(sp)\n", ""),
        ("ra restored from t0's slot", "\tld\tra, ABI_RA(sp)\n", "\tld\tra, ABI_T0(sp)\n"),
        ("frame 16 bytes short", "\taddi\tsp, sp, ABI_FRAME\n", "\taddi\tsp, sp, ABI_FRAME - 16\n"),
        ("ip of a 16-byte site", "#define SITE 8", "#define SITE 12"),
    ),
    *of(
        "riscv64",
        "v6.8",
        "ops",
        "riscv64/ftrace_caller_regs.S",
        ("s0 not stored", "\tsd\ts0, OFF_pt_regs_s0(sp)\n", ""),
        (
            "epc not stored",
            "\tsd\tt0, OFF_pt_regs_epc(sp)\n\tsd\tra, OFF_pt_regs_ra(sp)\n\tsd\ts0",
            "\tsd\tra, OFF_pt_regs_ra(sp)\n\tsd\ts0",
        ),
    ),
    *of(
        "riscv64",
        "v6.8",
        "ops-regs",
        "riscv64/all_regs.inc",
        ("s11 from s10's slot or into it", "\t\\op\ts11, OFF_pt_regs_s11(sp)\n", "\t\\op\ts11, OFF_pt_regs_s10(sp)\n"),
        ("tp from gp's slot or into it", "\t\\op\ttp, OFF_pt_regs_tp(sp)\n", "\t\\op\ttp, OFF_pt_regs_gp(sp)\n"),
    ),
    *of(
        "riscv64",
        "v6.3",
        "ops-regs",
        "riscv64/all_regs.inc",
        ("t5 left out", "\t\\op\tt5, OFF_pt_regs_t5(sp)\n", ""),
    ),
    *of(
        "riscv64",
        "v6.8",
        "ops-regs",
        "riscv64/ftrace_caller_regs.S",
        ("t1 not cleared", "\tmv\tt1, zero\n", ""),
    ),
    *of(
        "riscv64",
        "v6.8",
        "direct+ops",
        "riscv64/ftrace_caller_regs.S",
        ("direct call not taken", "\tbnez\tt1, 1f\n", ""),
    ),
    # riscv64: ftrace_regs of its own, before and with the callsite's ops
    *of(
        "riscv64",
        "v6.12",
        "ops",
        "riscv64/ftrace_caller_args.S",
        ("ra not stored", "\tsd\tra, F(ra)\n", ""),
        ("s0 restored from t1's slot", "\tld\ts0, F(s0)\n", "\tld\ts0, F(t1)\n"),
        ("t1 not cleared", "\tmv\tt1, zero\n", ""),
        ("t1 not restored", "\tld\tt1, F(t1)\n", ""),
        ("arguments not stored", "\targs\tsd, OFF_ftrace_regs_args\n", ""),
        ("ip of the JALR", "\taddi\ta0, t0, -8\t", "\taddi\ta0, t0, -4\t"),
        ("no parent ip", "\tmv\ta1, ra\t", "\tmv\ta1, t0\t"),
    ),
    *of(
        "riscv64",
        "v7.2",
        "ops",
        "riscv64/ftrace_caller_args.S",
        ("epc not restored", "\tld\tt0, F(epc)\n", ""),
        ("frame 16 bytes short", "\taddi\tsp, sp, FRAME\n", "\taddi\tsp, sp, FRAME - 16\n"),
        ("literal's neighbour", "\tld\tt2, -16(t0)\n", "\tld\tt2, -8(t0)\n"),
        ("sp slot below the frame", "\tsd\tt3, F(sp)\n", "\tsd\tsp, F(sp)\n"),
        ("wrong ops passed", "\tmv\ta2, t2\n", "\tmv\ta2, t3\n"),
    ),
    *of(
        "riscv64",
        "v7.2",
        "ops",
        "riscv64/args.inc",
        (
            "a6 restored from a7's slot",
            "\t\\op\ta6, (\\base + 48)(sp)\n",
            "\t.ifc \\op, ld\n\tld\ta6, (\\base + 56)(sp)\n\t.else\n\tsd\ta6, (\\base + 48)(sp)\n\t.endif\n",
        ),
        (
            "a1 and a2 swapped on the way back",
            "\t\\op\ta1, (\\base + 8)(sp)\n\t\\op\ta2, (\\base + 16)(sp)\n",
            "\t.ifc \\op, ld\n\tld\ta2, (\\base + 8)(sp)\n\tld\ta1, (\\base + 16)(sp)\n\t.else\n"
            "\tsd\ta1, (\\base + 8)(sp)\n\tsd\ta2, (\\base + 16)(sp)\n\t.endif\n",
        ),
    ),
    *of(
        "riscv64",
        "v6.16",
        "direct+ops",
        "riscv64/ftrace_caller_args.S",
        ("late check left out", "\tbnez\tt1, ftrace_caller_direct\n\tjr\tt0\n", "\tjr\tt0\n"),
    ),
    *of(
        "riscv64",
        "v7.2",
        "direct",
        "riscv64/direct.S",
        ("stub does not store t0", "\tsd\tt0, 64(sp)\n", ""),
        ("stub does not restore ra", "\tld\tra, 72(sp)\n", ""),
        ("stub returns to the caller", "\tjr\tt0\n", "\tjr\tra\n"),
    ),
    # the core, on one ISA each
    *of(
        "x86_64",
        "v6.1",
        "ops-mixed",
        "core/ftrace.c",
        ("hashes not asked by the list", "if (!lab_ops_test(op, ip, regs))", "if (!lab_ops_test(op, ip, regs) && !ip)"),
    ),
    *of(
        "arm64",
        "v7.2",
        "ops-mixed",
        "core/ftrace.c",
        (
            "notrace hash ignored",
            "return lab_hash_empty(hash->notrace_hash) || !lab_hash_find(hash->notrace_hash, ip)",
            "return 1",
        ),
    ),
    *of(
        "riscv64",
        "v6.4",
        "ops-mixed",
        "core/ftrace.c",
        (
            "filter hash ignored",
            "if (!lab_hash_empty(hash->filter_hash) && !lab_hash_find(hash->filter_hash, ip))",
            "if (0)",
        ),
    ),
    *of(
        "arm64",
        "v6.4",
        "ops-x2",
        "core/ftrace.c",
        ("guard kept by the list", "&ftrace_list_end);\n\ttrace_recursion_leave(others);\n}", "&ftrace_list_end);\n}"),
    ),
    *of(
        "x86_64",
        "v7.2",
        "ops-guarded",
        "core/ftrace.c",
        ("guard kept by the assist", "op, fregs);\n\ttrace_recursion_leave(others);\n}", "op, fregs);\n}"),
    ),
    *of(
        "riscv64",
        "v7.2",
        "ops-static-guarded",
        "core/recursion.h",
        ("preemption stays disabled", "\tpreempt_enable_notrace();\n\tbarrier();\n", "\tbarrier();\n"),
    ),
    *of(
        "x86_64",
        "v6.12",
        "ops-x10",
        "core/ftrace.c",
        ("last of the list forgotten", "&& op != &ftrace_list_end);", "&& op->next != &ftrace_list_end);"),
    ),
    *of(
        "arm64",
        "v6.4",
        "direct+ops",
        "core/direct.c",
        ("direct call forgotten", "\tif (addr)\n", "\tif (!addr)\n"),
    ),
    *of(
        "x86_64",
        "v6.1",
        "direct+ops",
        "core/direct.c",
        ("another ip looked up", "find(&lab_direct_functions, ip)", "find(&lab_direct_functions, ip + 1)"),
    ),
]


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
_REGISTER = "\tld\tt1, OFF_ftrace_ops_func(t2)\n\tjalr\tt1\n"
#: ISA -> a release of which the trampolines are given room, and hook -> the trampoline, its file, and how it calls its callback; of
#: x86-64's those that ops have in common.
ROOMS: dict[str, tuple[str, dict[str, tuple[str, str, str]]]] = {
    "x86_64": (
        "v6.1",
        {
            "ops-x2": ("ftrace_caller", X86, "\tcall_tracer ftrace_call\n"),
            "ops+ops-regs": ("ftrace_regs_caller", X86, "\tcall_tracer ftrace_regs_call\n"),
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


def copied(folder: Path) -> Path:
    """The guest sources, to change with replace(): a file is a link to where it is as it was."""
    guest = folder / "guest"
    for path in sorted(p for p in GUEST.rglob("*") if p.is_file() and p.suffix != ".pyc"):
        here = guest / path.relative_to(GUEST)
        here.parent.mkdir(parents=True, exist_ok=True)
        here.symlink_to(path)
    return guest


def replace(source: Path, old: str, new: str) -> None:
    """Put one text of a copied file in place of another, which is there once."""
    text = source.read_text("utf-8")
    assert text.count(old) == 1, f"{source.name} has {text.count(old)} times {old!r}"
    source.unlink()
    source.write_text(text.replace(old, new), "utf-8")


def broken(folder: Path, mutant: Mutant) -> Path:
    """The sources of a mutant."""
    guest = copied(folder)
    replace(guest / mutant.file, mutant.old, mutant.new)
    return guest
