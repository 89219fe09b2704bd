"""What of the kprobes' code is needed: every instruction of the way from a breakpoint into C and back, and lines of the core, by
breaking one after the other."""

import re

import pytest

from support.abi import abi, abi_places, kprobe_abi
from support.mutants.mutants import of, survivors
from tramplab import TramplabError
from tramplab.isa import ISAS


def noticed(lab: abi.Lab, hook: str) -> bool:
    """Does the check find something wrong?"""
    try:
        with kprobe_abi.hooked(lab, hook) as h:
            for seed, name in ((3, "three_args"), (4, "calls_others"), (2, "one_arg")):
                h.check(seed, name)
            return h.breaks and not state_kept(h)
    except (AssertionError, TramplabError):
        return True
    return False


_DF, _AC, _SUM = 1 << 10, 1 << 18, 1 << 18
#: ISA -> a register that holds its state, what it holds with interrupts on and off, which bits the exception must bring back,
#: which of them are for interrupts, and what those are while the copy runs; and which bits C, and so the handler, must find clear,
#: as strings go forward there and user memory is closed.
STATES = {
    "x86_64": ("eflags", (0x2D7 | _DF | _AC, 0x46), 0x2D5 | _DF | _AC, 0x200, 0, _DF),
    "arm64": ("pstate", (0xA << 28 | 0x5, 0x4 << 28 | 0x3C5), 0xF << 28 | 0x3C0, 0x3C0, 0x3C0, 0),
    "riscv64": ("sstatus", (2 | _SUM, 0), 2 | _SUM, 2, 0, _SUM),
}


def state_kept(h: kprobe_abi.KprobeHooked) -> bool:
    """Is every register as it was where the probed instruction is done; are interrupts off while its copy runs, and are they and
    the flags behind it as before?"""
    return all(kept_as(h, holds) for holds in STATES[h.isa.name][1])


def kept_as(h: kprobe_abi.KprobeHooked, holds: int) -> bool:
    """The same with one value of the state."""
    name, _, kept, irqs, off, clear = STATES[h.isa.name]
    m, f, at = h.machine, h.lab.functions["one_arg"], h.addresses["one_arg"]
    fields = h.kernel.image.struct("kprobe").fields
    (probe,) = (p for p in h.probe.structs if m.read_u64(p + fields["addr"].offset) == at)
    slot, resume = (m.read_u64(probe + fields[n].offset) for n in ("slot", "resume"))
    chosen = {r: 0x1111_0000 + n for n, r in enumerate(h.isa.registers) if r not in (*h.isa.fixed, h.isa.link)}
    m.write(m.stack.address, b"\x55" * m.stack.size)  # no slot is right by luck
    m.enter(chosen)
    m.set_register(name, holds)
    start, found = f.address, []
    with m.watching(h.kernel.image.address(h.probe.request.handler), lambda: found.append(m.register(name) & clear)):
        for end in (slot, resume) if slot else (at + 4,):
            m.poke(start, m.read(start, 4))  # what was translated for one end of a run must not serve another
            there = m.run(start, end, abi.BUDGET).registers
            if start == f.address and any(there[r] != v for r, v in chosen.items() if r in h._passed("one_arg")):
                return False
            if end == slot and m.register(name) & irqs != off:
                return False
            start = end
    return found == [0] and m.register(name) & kept == holds & kept


#: Where the entry is tried: with a copy to run. Instructions that no check notices there, and why.
ENTRIES = {"x86_64": "v7.2", "arm64": "v7.2", "riscv64": "v6.12"}
LEAVES = "the machine does what it says where it lies"
NEVER = "asks for what is not: from user space, a full stack, another cause"
QUIET = "what was interrupted is to lead no speculation: nobody computes with it"
UNREAD = "for who unwinds, or looks at what no handler here asks for"
_CLEARED = [f"xor {r}, {r}" for r in "eax ebx ecx edi edx esi r10d r11d r12d r13d r14d r15d r8d r9d".split()]
HARMLESS = {
    "x86_64": {
        "iretq": LEAVES,
        "endbr64": "nobody checks where an exception leads",
        "call there": "to what clears them",
        "nop dword ptr [rax]": "mitigations that are not needed",
        **dict.fromkeys(("je there", "jne there", "lea rcx, there", "mov eax, ecx"), NEVER),
        **dict.fromkeys(("test byte ptr [rsp + 0x90], 3", "cmp qword ptr [rsp + 0x88], rax"), NEVER),
        **dict.fromkeys(_CLEARED, QUIET),
    },
    "arm64": {
        "eret": LEAVES,
        "tbnz w0, #0xe, there": NEVER,
        "b there": "to what follows it",
        "msr daifset, #0xf": "they are off already, but for handlers that turn them on",
        **dict.fromkeys(("add x29, sp, #0x130", "stp x29, x22, [sp, #0x130]"), UNREAD),
    },
    "riscv64": {
        "sret": LEAVES,
        "unimp": NEVER,
        "j 4": "to what follows it",
        **dict.fromkeys(("bthere", "bgeu t0, t2, 0x68", "addi t2, t2, there", "csrr a0, scause"), NEVER),
        **dict.fromkeys((*(f"c.li a1, {n}" for n in ("0xc", "0xd", "0xf")), "beq a0, a1, there"), NEVER),
        **dict.fromkeys(("c.addi16sp sp, -0x120", "srli sp, sp, 0xe", "ld sp, 0x68(tp)"), NEVER),
        **dict.fromkeys(("andi s0, s0, 0x100", "c.beqz s0, 0x54"), NEVER),
        **dict.fromkeys(("csrr s3, stval", "c.sdsp s3, 0x108(sp)", "c.sdsp s4, 0x110(sp)"), UNREAD),
        "sc.d zero, a2, (sp)": "nobody has a reservation",
    },
}


#: Where an instruction goes, or what lies how far from it.
_ADDRESS = re.compile(
    r"(?<=^addi t2, t2, )-?0x[0-9a-f]+|#?0x[0-9a-f]{5,}|\[rip [+-] 0x[0-9a-f]+\]|(?<=^b)(\w+ \w+, )0x[0-9a-f]+"
    r"|(?<=^beq a0, a1, )0x[0-9a-f]+"
)


def reloads_what_is_kept(isa, text: str) -> bool:
    """Is it a load of registers alone that C keeps, or that are the kernel's own?"""
    name, _, operands = text.partition(" ")
    loaded = {r for r in re.findall(r"[a-z]+[0-9]*", operands.partition("[")[0].partition("(")[0]) if r in isa.registers}
    return name in ("ldp", "c.ldsp") and loaded <= {*isa.callee_saved, *isa.fixed}


@pytest.mark.parametrize("isa", ISAS)
def test_every_instruction_of_the_trap_entry_is_needed(isa):
    """One after the other is a NOP: a register or the state is missing, or the wrong one, or the call does not come to its end."""
    place, names = abi_places.Place(isa, ENTRIES[isa]), ("lab_trap_entry", "lab_error_entry")
    survived = survivors(place, names, lambda lab: noticed(lab, "kprobe-brk"))
    kept = {_ADDRESS.sub("there", text) for text in survived if not reloads_what_is_kept(ISAS[isa], text)}
    # without it the end of a table is taken for another place: a later one, as the layout has it, and that is never asked for
    layout = {"addi t2, t2, there"} & set(HARMLESS[isa])
    assert kept | layout == set(HARMLESS[isa])


@pytest.mark.parametrize("place", [abi_places.Place(isa, release) for isa, release in ENTRIES.items()], ids=str)
def test_the_unchanged_entry_passes(place):
    assert not noticed(abi.Lab(place), "kprobe-brk")


MUTANTS = [
    *of(
        "arm64",
        "v7.2",
        "kprobe-brk+ops",
        "core/kprobe.c",
        ("a table of another size", "(64 - KPROBE_HASH_BITS)", "(63 - KPROBE_HASH_BITS)"),
        ("the chain not followed", "p; p = READ_ONCE(p->next))", "p; p = 0)"),
    ),
    *of(
        "arm64",
        "v7.2",
        "kprobe-brk+ops",
        "core/kprobe_step.h",
        ("state not restored", "LAB_STATE(regs) = (LAB_STATE(regs) & ~LAB_STATE_KEPT) | this_pcpu->kprobe_saved_state;", ""),
        ("the copy not run, which an ops misses", "	trap_set_ip(regs, p->slot);\n", "	trap_set_ip(regs, p->slot_end);\n"),
        (
            "current kprobe kept",
            "		p->post_handler(p, regs, 0);\n	this_pcpu->current_kprobe = 0;",
            "		p->post_handler(p, regs, 0);",
        ),
    ),
    *of(
        "arm64",
        "v7.2",
        "kprobe-brk+ops",
        "core/kprobe_ss.h",
        ("back to the breakpoint", "		trap_set_ip(regs, p->resume);\n", "		trap_set_ip(regs, p->addr);\n"),
        ("the step not told from the probe", "	kprobe_restore_state(regs);\n	post_kprobe_handler(p, regs);\n", ""),
    ),
    *of(
        "x86_64",
        "v6.12",
        "kprobe-brk",
        "core/kprobe_x86_64.c",
        ("as far behind the copy", "trap_ip(regs) - p->slot + p->addr", "trap_ip(regs)"),
        ("the end of the copy not known", "regs->ip <= p->slot", "regs->ip >= p->slot"),
    ),
    *of(
        "x86_64",
        "v6.12",
        "kprobe",
        "core/kprobe.c",
        ("ip not put back", "		trap_set_ip(regs, back);\n", "		trap_set_ip(regs, back + 1);\n"),
        ("ip not as a breakpoint leaves it", "ip + LAB_BREAKPOINT_SIZE);", "ip);"),
        ("the guard kept", "	trace_recursion_leave(held);\n", "	(void)held;\n"),
    ),
    *of(
        "riscv64",
        "v7.2",
        "kprobe-brk+ops",
        "core/kprobe_riscv64.c",
        ("AUIPC of another address", "p->addr + (long)(int)", "p->addr + 4 + (long)(int)"),
        ("AUIPC simulated twice", "	trap_set_ip(regs, p->addr + 4);\n", ""),
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_of_the_core_is_caught(mutant, mutated):
    assert noticed(mutated(mutant), mutant.hook)
