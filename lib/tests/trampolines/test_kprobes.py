"""kprobes, through ftrace and by a breakpoint: the calling convention, what handlers are given, one inside another, programs, and
what of their code is needed."""

import re

import pytest
from hypothesis import settings

from support import abi, abi_places, kprobe_abi
from support.decoded import instructions
from support.mutants import broken, of
from support.seeds import drawn, seeds
from tramplab import Fprobe, GuestFault, Kernel, Kprobe, Ops, TramplabError
from tramplab.ftrace.steps import Sync, Wait
from tramplab.isa import ISAS
from tramplab.lab import hooks, measure

every_isa = pytest.mark.parametrize("isa", ISAS)
ON = (("kprobes_on_ftrace", True),)
#: One of each way to be given registers through ftrace, and of each place and way to do the probed instruction.
PLACES = {
    abi_places.Place("x86_64", "v6.12"): tuple(kprobe_abi.HOOKS),
    abi_places.Place("x86_64", "v7.2", (("frame_pointer", True),)): ("kprobe", "kprobe-brk"),
    abi_places.Place("arm64", "v6.1", ON): ("kprobe", "kprobe-post", "kprobe+ops"),
    abi_places.Place("arm64", "v7.2", ON): tuple(kprobe_abi.HOOKS),
    abi_places.Place("riscv64", "v6.9"): ("kprobe", "kprobe-brk"),
    abi_places.Place("riscv64", "v7.2", ON): tuple(kprobe_abi.HOOKS),
}
CASES = [(place, hook) for place, names in PLACES.items() for hook in names]


@pytest.fixture(params=CASES, ids=lambda c: f"{c[0]}-{c[1]}")
def hooked(request):
    """A kernel with the kprobes attached, once for all states."""
    place, hook = request.param
    with kprobe_abi.hooked(abi.lab(place), hook) as h:
        h.warm_up()
        yield h


@drawn
def test_a_call_with_a_kprobe_keeps_the_calling_convention(hooked, request):
    """Registers, arguments, result and stack are as without; the handler sees every register that it is promised."""
    for seed in seeds(request.node.name, settings.default.max_examples // 8):
        hooked.check(seed)


# --- What is not needed: every instruction of the entry, and lines of the core


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


#: ISA -> a register that holds its state, what it holds with interrupts on and off, which bits the exception must bring back,
#: which of them are for interrupts, and what those are while the copy runs.
STATES = {
    "x86_64": ("eflags", (0x2D7, 0x46), 0x2D5, 0x200, 0),
    "arm64": ("pstate", (0xA << 28 | 0x5, 0x4 << 28 | 0x3C5), 0xF << 28 | 0x3C0, 0x3C0, 0x3C0),
    "riscv64": ("sstatus", (2, 0), 2, 2, 0),
}


def state_kept(h: kprobe_abi.KprobeHooked) -> bool:
    """Is every register as it was where the probed instruction is done; are interrupts off while its copy runs, and are they and
    the flags behind it as before?"""
    return all(kept_as(h, holds) for holds in STATES[h.isa.name][1])


def kept_as(h: kprobe_abi.KprobeHooked, holds: int) -> bool:
    """The same with one value of the state."""
    name, _, kept, irqs, off = STATES[h.isa.name]
    m, f, at = h.machine, h.lab.functions["one_arg"], h.addresses["one_arg"]
    fields = h.kernel.image.struct("kprobe").fields
    (probe,) = (p for p in h.probe.structs if m.read_u64(p + fields["addr"].offset) == at)
    slot, resume = (m.read_u64(probe + fields[n].offset) for n in ("slot", "resume"))
    chosen = {r: 0x1111_0000 + n for n, r in enumerate(h.isa.registers) if r not in (*h.isa.fixed, h.isa.link)}
    m.write(m.stack.address, b"\x55" * m.stack.size)  # no slot is right by luck
    m.enter(chosen)
    m.set_register(name, holds)
    start = f.address
    for end in (slot, resume) if slot else (at + 4,):
        m.poke(start, m.read(start, 4))  # what was translated for one end of a run must not serve another
        there = m.run(start, end).registers
        if start == f.address and any(there[r] != v for r, v in chosen.items() if r in h._passed("one_arg")):
            return False
        if end == slot and m.register(name) & irqs != off:
            return False
        start = end
    return m.register(name) & kept == holds & kept


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
        "cld": "no string instruction in C's way",
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
        "lui t0, 0x46": "the lab has no user space whose pages or floating point could be open",
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


@every_isa
def test_every_instruction_of_the_trap_entry_is_needed(isa):
    """One after the other is a NOP: a register or the state is missing, or the wrong one, or the call does not come to its end."""
    place = abi_places.Place(isa, ENTRIES[isa])
    lab = abi.Lab(place)
    survived, code = [], []
    for name in ("lab_trap_entry", "lab_error_entry"):
        if symbol := lab.kernel.image.symbols.get(name):
            code += instructions(lab.isa, symbol.address, lab.machine.read(symbol.address, symbol.size))
    for i in code:
        lab.machine.poke(i.address, lab.isa.nops[i.size])
        if noticed(lab, "kprobe-brk"):
            lab = abi.Lab(place)  # what the mutant left behind must not count again
        else:
            survived.append(i.text)
            lab.machine.poke(i.address, i.data)
    kept = {_ADDRESS.sub("there", text) for text in survived if not reloads_what_is_kept(ISAS[isa], text)}
    assert kept == set(HARMLESS[isa])


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
        "core/kprobe_arm64.c",
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
def test_a_mutant_of_the_core_is_caught(mutant, tmp_path, monkeypatch):
    assert noticed(abi.Lab(mutant.place, broken(tmp_path, mutant)), mutant.hook)


# --- What a kprobe is to others


@every_isa
@pytest.mark.parametrize("release", ["v6.1", "v7.2"])
def test_attaching_and_detaching_leave_nothing(isa, release):
    """Text, memory and the table are as before; ftrace knows nothing of a breakpoint."""
    k = Kernel(isa, release, meter="count", kprobes_on_ftrace=True)
    table = k.image.symbol("kprobe_table")

    def now() -> tuple:
        text = [k.machine.read(*span) for span in k.machine.text if span[0] != k.machine.places.modules.address]
        return text, k.machine.read(table.address, table.size), list(k.heap._free), list(k.slowpath.makers[0]._ground.modules._free)

    before = now()
    for request in (Kprobe(), Kprobe(breakpoint=True), Kprobe(breakpoint=True, bpf=True), Kprobe(post=True)):
        with k.attached(None, request) as (ops,):
            assert now() != before and len(k.slowpath.counted) == 1
            assert bool(k.slowpath.ops) != request.breakpoint
            assert all(r.count == (not request.breakpoint) for r in k.slowpath.records.values())
            assert len(ops.structs) == len(k.functions)
        assert now() == before and not k.slowpath.counted


@every_isa
def test_a_slot_is_given_back_behind_the_wait(isa):
    """Whoever is in it has left: interrupts are off there."""
    k = Kernel(isa, "v6.12", meter="count")
    (ops,) = k.attach(k.function("one_arg"), Kprobe(breakpoint=True))
    steps = [str(step) for step in k.slowpath.unregister(ops)]
    wait = next(n for n, step in enumerate(steps) if Sync.RCU.kernel in step)
    assert any("is back" in s for s in steps[:wait]) and all(s.startswith("free") for s in steps[wait + 1 :])


@every_isa
@pytest.mark.parametrize("request_", [Kprobe(), Kprobe(breakpoint=True)], ids=["ftrace", "breakpoint"])
def test_a_call_inside_its_handler_is_missed_and_counted(isa, request_):
    """The handler calls the probed function: that call is not handled, and does what it does without."""
    k = Kernel(isa, "v6.12", kprobes_on_ftrace=True)
    f = k.function("two_args")
    reenter = Kprobe(breakpoint=request_.breakpoint, handler="lab_kprobe_reenter")
    with k.attached(f, reenter) as (ops,):
        for n in (1, 2):
            made = k.call(f, 5, 7)
            assert made.value == 5 * 3 + 7 * 5 and made.hits == (1,)
            assert k.machine.read_u64(k.image.address("lab_reentered")) == 1 * 3 + 2 * 5
            (probe,) = ops.structs
            missed = k.machine.read_u64(probe + k.image.struct("kprobe").fields["nmissed"].offset)
            assert missed == n  # the recursion guard lets one more call through, which finds a kprobe running


@every_isa
@pytest.mark.parametrize("breakpoint_", [False, True], ids=["ftrace", "breakpoint"])
@pytest.mark.parametrize("release", ["v6.1", "v6.12"])
def test_a_handler_can_send_the_cpu_elsewhere(isa, release, breakpoint_):
    """One that returns something else than 0: the probed instruction is not done, and calls go on where it says."""
    if isa == "riscv64" and release == "v6.1" and not breakpoint_:
        pytest.skip("its 16-byte site is entered again at its last instruction")
    k = Kernel(isa, release, kprobes_on_ftrace=True)
    f = k.function("two_args")
    with k.attached(f, Kprobe(breakpoint=breakpoint_, handler="lab_kprobe_skip", go_to="new_two_args")):
        assert k.call(f, 5, 7).value == 5 * 29 + 7 * 31 + (1 << 40)
    assert k.call(f, 5, 7).value == 5 * 3 + 7 * 5


@every_isa
@pytest.mark.parametrize("breakpoint_", [False, True], ids=["ftrace", "breakpoint"])
def test_a_program_is_given_the_registers_and_its_cookie(isa, breakpoint_):
    """Once per call, and all counters are back at zero; the hits are counted."""
    k = Kernel(isa, "v7.2", kprobes_on_ftrace=True, meter="count")
    image, f = k.image, k.function("three_args")
    layout, pcpu = image.struct("lab_kprobe_seen"), image.struct("lab_pcpu").fields
    with k.attached(f, Kprobe(breakpoint=breakpoint_, bpf=True, observe=True)):
        assert k.call(f, 11, 22, 33).value == 11 * 3 + 22 * 5 + 33 * 7
    assert k.machine.read_u64(image.address("lab_kprobe_seen_count")) == 1
    seen = [k.machine.read_u64(image.address("lab_kprobe_seen") + 8 * n) for n in range(layout.size // 8)]
    regs = layout.fields["regs"].offset // 8
    assert [seen[regs + kprobe_abi.slot(k, r)] for r in k.isa.args[:3]] == [11, 22, 33] and seen[0] == 1
    at = image.address("lab_boot_pcpu")
    assert k.machine.read_u64(at + pcpu["kprobe_nhit"].offset) == 1
    assert not k.machine.read_u64(at + pcpu["bpf_prog_active"].offset) & 0xFFFFFFFF
    assert not any(k.machine.read(at + pcpu["counts"].offset, pcpu["counts"].size))


@every_isa
def test_a_breakpoint_costs_what_the_way_to_it_says(isa):
    """Through ftrace one call of the handler and no exception; a copy that is run takes two, a simulated instruction one."""
    two = {"x86_64": 2, "arm64": 2, "riscv64": 1}
    by_ftrace = measure.run(isa, "kprobe", "v7.2", kprobes_on_ftrace=True)
    by_breakpoint = measure.run(isa, "kprobe-brk", "v7.2")
    for r, traps in ((by_ftrace, 0), (by_breakpoint, two[isa])):
        entry = r.recording.each(lambda pc, r=r: r.name_of(pc) == "lab_trap_entry").sum()
        assert (entry, r.hits) == (traps, (1,))
    assert ("kprobe_insn_slot[0]" in by_breakpoint.symbols) == (two[isa] == 2)


def test_where_a_breakpoint_is_put():
    """arm64's at the first byte, which is no part of rec->ip; where that is rec->ip, behind the site."""
    for isa, release, entry in (
        ("x86_64", "v7.2", False),
        ("arm64", "v5.17", True),
        ("arm64", "v7.2", True),
        ("riscv64", "v6.1", False),
        ("riscv64", "v6.12", False),
        ("riscv64", "v7.2", True),
    ):
        k = Kernel(isa, release, meter="count")
        f = k.function("one_arg")
        at = f.address if entry else f.site.body
        with k.attached(f, Kprobe(breakpoint=True)):
            here = k.machine.instruction_at(at)
            assert any(here.data == b for b in (*k.isa.breakpoints,)), (isa, release, here.text)


# --- Bad input, and what there was when


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"handler": "lab_kprobe_pree"}, "did you mean lab_kprobe_pre"),
        ({"go_to": "new_one_arg"}, "go_to= belongs to"),
        ({"handler": "lab_kprobe_skip"}, "go_to= belongs to"),
        ({"bpf": True, "handler": "lab_kprobe_observe"}, "leave handler= out"),
        ({"observe": True}, "is for a kprobe with a BPF program"),
    ],
)
def test_options_that_make_no_sense(wrong, said):
    with pytest.raises(TramplabError) as e:
        Kprobe(**wrong)
    assert said in str(e.value) and "\n" not in str(e.value)


@every_isa
def test_what_cannot_be_is_refused_and_leaves_nothing(isa):
    k = Kernel(isa, "v7.2", meter="count")
    f, before = k.function("one_arg"), (list(k.heap._free), list(k.slowpath.makers[0]._ground.modules._free))
    if isa != "x86_64":
        with pytest.raises(TramplabError, match=r"has no kprobes through ftrace.*breakpoint=True"):
            k.attach(f, Kprobe())
    with k.attached(f, Kprobe(breakpoint=True)):
        with pytest.raises(TramplabError, match="has a kprobe"):
            k.attach(f, Kprobe(breakpoint=True))
        assert k.call(f, 2).value == 6
    with pytest.raises(TramplabError, match="did you mean new_one_arg"):
        k.attach(f, Kprobe(breakpoint=True, handler="lab_kprobe_skip", go_to="new_one_argg"))
    assert (k.heap._free, k.slowpath.makers[0]._ground.modules._free) == before and not k.slowpath.counted


def test_when_kprobes_went_through_ftrace():
    hook = hooks.get("kprobe")
    assert hooks.history(hook, "x86_64") == "x86_64 has it always"
    assert hooks.history(hook, "arm64") == "arm64 has it never"
    assert hooks.history(hook, "riscv64") == "riscv64 has it v5.12 to v6.9"


def test_an_instruction_that_must_be_simulated_is_refused(monkeypatch):
    """What goes elsewhere, or asks where it is; AUIPC is the one that is simulated."""
    from tramplab.emulate import decode
    from tramplab.trampolines.kprobe import arm64, riscv64, x86_64

    for own, isa, code in (
        (arm64, "arm64", "00000014"),
        (arm64, "arm64", "00000090"),
        (arm64, "arm64", "00000058"),
        (riscv64, "riscv64", "6f000000"),
        (riscv64, "riscv64", "01a0"),
        (x86_64, "x86_64", "e800000000"),
        (x86_64, "x86_64", "7400"),
    ):
        i = decode.at(ISAS[isa], 0x1000, bytes.fromhex(code))
        with pytest.raises(TramplabError, match="does not simulate"):
            own.stepped(i, 0x2000)
    moved = x86_64.stepped(decode.at(ISAS["x86_64"], 0x1000, bytes.fromhex("488b0510000000")), 0x1800)
    assert decode.at(ISAS["x86_64"], 0x1800, moved.copy).operands == "rax, qword ptr [rip - 0x7f0]"


def test_probes_beside_one_another():
    """A breakpoint kprobe, an fprobe and an ops on one function: each sees the call."""
    k = Kernel("x86_64", "v6.12", meter="count")
    f = k.function("two_args")
    with k.attached(f, Kprobe(breakpoint=True), Kprobe(), Fprobe(exit=True), Ops()):
        made = k.call(f, 5, 7)
        assert made.value == 5 * 3 + 7 * 5 and sorted(made.hits) == [1, 1, 1, 2]


def test_a_breakpoint_outside_every_kprobe_is_an_error():
    k = Kernel("arm64", "v7.2")
    f = k.function("two_args")
    with k.attached(f, Kprobe(breakpoint=True)):
        k.machine.poke(k.function("one_arg").site.body, k.isa.breakpoints[0])
        assert k.call(f, 5, 7).value == 50
        with pytest.raises(GuestFault, match="lab_trap_unclaimed"):
            k.call("one_arg", 1)


def test_the_breakpoint_is_written_while_the_others_stand_still():
    """As each kernel does: arm64 and riscv64 stop the other CPUs, x86-64 makes each see the byte."""
    for isa, first, last in (("arm64", Sync.STOP_MACHINE, Sync.IC_IVAU), ("riscv64", Sync.STOP_MACHINE, Sync.FENCE_I)):
        k = Kernel(isa, "v7.2", meter="count")
        _, steps = k.slowpath.register(Kprobe(breakpoint=True, filter=("one_arg",)))
        waits = [s.sync for s in steps if isinstance(s, Wait)]
        assert waits == [first, last] and isinstance(steps[-1], Wait)
