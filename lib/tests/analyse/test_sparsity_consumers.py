"""Consumers of registers: what each says of a full structure, as worked out here or by the emulated CPU itself; which fields it
reads; and the wrong answers that a structure which is filled in part leads to."""

from __future__ import annotations

import functools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.seeds import drawn, seeds
from tramplab import Kernel
from tramplab.analyse.sparsity import consumers, fills
from tramplab.analyse.sparsity.consumers import CONSUMERS, INSTRUCTIONS, STARTS, read, slots
from tramplab.analyse.sparsity.fields import FTRACE_REGS, PT_REGS, Place, named, places
from tramplab.emulate.machine import COUNT
from tramplab.errors import TramplabError
from tramplab.isa import ISAS

every_isa = pytest.mark.parametrize("isa", ISAS)
both_kinds = pytest.mark.parametrize("kind", [PT_REGS, FTRACE_REGS])
few = settings(max_examples=max(settings.default.max_examples // 20, 5))
WORD, MASK = 8, (1 << 64) - 1
#: Per ISA: the registers of arguments, what is returned, ip, sp, frame pointer and state (System V psABI, AAPCS64, RISC-V psABI).
ROLES = {
    "x86_64": ("di si dx cx r8 r9".split(), "ax", "ip", "sp", "bp", "flags"),
    "arm64": ([f"x{n}" for n in range(8)], "x0", "pc", "sp", "x29", "pstate"),
    "riscv64": ([f"a{n}" for n in range(8)], "a0", "epc", "sp", "s0", "status"),
}
#: Where the mode is, and what it is in the kernel: cs's privilege level 0; EL1h; SPP set.
MODE = {"x86_64": ("cs", 0x10), "arm64": ("pstate", 5), "riscv64": ("status", 1 << 8)}
#: The last field that regs_get_register() gives out (MAX_REG_OFFSET of each ISA's asm/ptrace.h), and how many come before.
LAST_SLOT = {"x86_64": ("ss", 20), "arm64": ("pstate", 33), "riscv64": ("orig_a0", 35)}


class Lab:
    """A kernel, room for a structure of each kind, and a stretch of memory that can be somebody's stack."""

    def __init__(self, isa: str, release: str = "v7.2") -> None:
        self.kernel = Kernel(isa, release=release)
        self.machine, self.isa = self.kernel.machine, isa
        self.at = {kind: self.kernel.heap.take(self.kernel.image.struct(kind).size) for kind in (PT_REGS, FTRACE_REGS)}
        # a kernel's stack begins at a multiple of its size; twice that, so that one that is too large is seen
        self.stack = -(-self.kernel.heap.take(1 << 16) // (1 << 15) * (1 << 15))

    def put(self, kind: str, data: bytes, **fields: int) -> None:
        """Make this the structure, with some fields set."""
        self.machine.write(self.at[kind], data[: self.kernel.image.struct(kind).size])
        for name, value in fields.items():
            self.machine.write_u64(self.at[kind] + self.place(kind, name).offset, value)

    def place(self, kind: str, name: str) -> Place:
        return named(self.kernel.image, kind, name)

    def held(self, kind: str) -> dict[str, int]:
        """The structure, field by field."""
        at = self.at[kind]
        fields = places(self.kernel.image, kind)
        return {p.name: int.from_bytes(self.machine.read(at + p.offset, p.size), "little") for p in fields}

    def read(self, name: str, kind: str = PT_REGS, number: int | None = None) -> consumers.Reading:
        return read(self.kernel, name, kind, self.at[kind], number)


@functools.cache
def lab(isa: str, release: str = "v7.2") -> Lab:
    return Lab(isa, release)


structures = st.binary(min_size=512, max_size=512)
#: States of a CPU: any, or one with few bits set, as they are.
states = st.integers(0, MASK) | st.sampled_from([0, 5, 2, 1 << 8, 0x246, 1 << 31 | 5, 1 << 5, 1 << 5 | 1 << 8, 1 << 7])


# what they say


def is_user(isa: str, held: dict[str, int]) -> bool:
    """SDM vol. 3, 5.5; Arm ARM, SPSR_EL1.M; RISC-V privileged ISA, sstatus.SPP."""
    return {"x86_64": lambda: held["cs"] % 4 != 0, "arm64": lambda: held["pstate"] % 16 == 0,
            "riscv64": lambda: held["status"] // 256 % 2 == 0}[isa]()  # fmt: skip


def started(isa: str, held: dict[str, int]) -> tuple[str, tuple[int, ...]]:
    """Where a callchain of v7.2 starts."""
    if is_user(isa, held):
        return "nowhere", (0, 0, 0)
    if isa == "arm64":
        return "registers", (held["pc"], 0, held["x29"])
    if isa == "riscv64":
        return "registers", (held["epc"], held["sp"], held["s0"])
    return ("registers", (held["ip"], held["sp"], held["bp"])) if held["flags"] & 2 else ("here", (0, held["sp"], 0))


@every_isa
@few
@given(data=structures, state=states, mode=states, number=st.integers(0, 8), down=st.integers(0, 4))
def test_what_they_say_of_a_full_pt_regs(isa, data, state, mode, number, down):
    the = lab(isa)
    args, returned, ip, sp, _, status = ROLES[isa]
    stack = random.Random(data).randbytes(256)
    the.machine.write(the.stack, stack)
    the.put(PT_REGS, data, **{MODE[isa][0]: mode, status: state, sp: the.stack + WORD * down})
    held, before = the.held(PT_REGS), the.machine.read(the.at[PT_REGS], 256)
    word = [int.from_bytes(stack[WORD * n : WORD * n + WORD], "little") for n in range(32)]
    beyond = word[down + number - 5] if isa == "x86_64" and number > 5 else 0
    on = {"x86_64": held[status] >> 9 & 1, "arm64": 1 - (held[status] >> 7 & 1), "riscv64": held[status] >> 5 & 1}
    flags = {"x86_64": held[status] & 0b1000_1101_0101, "arm64": held[status] & 0xF << 28, "riscv64": 0}
    said = {
        "user-mode": is_user(isa, held),
        "callchain": STARTS.index(started(isa, held)[0]),
        "argument": held[args[number]] if number < len(args) else beyond,
        "return-value": held[returned],
        "instruction-pointer": held[ip],
        "stack-pointer": held[sp],
        "stack-word": word[down + number],
        "interrupts": on[isa],
        "conditions": flags[isa],
        "register": int.from_bytes(before[WORD * number : WORD * number + WORD], "little"),
    }
    for name, answer in said.items():
        found = the.read(name, number=number if CONSUMERS[name].number and name != "callchain" else None)
        assert (name, found.answer, found.wrote) == (name, answer, ())
    assert the.read("callchain").start == started(isa, held)[1]
    assert the.machine.read(the.at[PT_REGS], 256) == before


@every_isa
@few
@given(data=structures, number=st.integers(0, 8))
def test_what_they_say_of_a_ftrace_regs(isa, data, number):
    the = lab(isa)
    args, returned, ip, *_ = ROLES[isa]
    the.machine.write(the.stack, data)
    the.put(FTRACE_REGS, data, sp=the.stack)
    held = the.held(FTRACE_REGS)
    beyond = int.from_bytes(data[WORD * (number - 5) :][:WORD], "little") if isa == "x86_64" else 0
    said = {
        "argument": held[args[number]] if number < len(args) else beyond,
        "return-value": held[returned],
        "instruction-pointer": held[ip],
        "stack-pointer": the.stack,
        "stack-word": int.from_bytes(data[WORD * number :][:WORD], "little"),
        # only x86-64's may be a full one, and its cs says so
        "full": the.at[FTRACE_REGS] if isa == "x86_64" and held["cs"] else 0,
    }
    for name, answer in said.items():
        found = the.read(name, FTRACE_REGS, number if CONSUMERS[name].number else None)
        assert (name, found.answer, found.wrote) == (name, answer, ())


# emulated instructions, against the CPU


def x86_64(name: str, rng: random.Random) -> tuple[bytes, int | None]:
    """Jcc rel8, CALL rel32, PUSH of any register (Intel SDM vol. 2)."""
    if name == "emulate-branch":
        return bytes([0x70 + rng.randrange(16), rng.randrange(256)]), None
    if name == "emulate-call":
        return b"\xe8" + rng.randrange(-1 << 14, 1 << 14).to_bytes(4, "little", signed=True), None
    return rng.choice([b"", b"\x41"]) + bytes([0x50 + rng.randrange(8)]), None


def arm64(name: str, rng: random.Random) -> tuple[bytes, int | None]:
    """B.cond, BL, ADD (immediate) of any registers, sp among them (Arm ARM, C6.2)."""
    if name == "emulate-branch":
        word = 0x54000000 | rng.randrange(-1 << 11, 1 << 11) % (1 << 19) << 5 | rng.randrange(16)
    elif name == "emulate-call":
        word = 0x94000000 | rng.randrange(-1 << 12, 1 << 12) % (1 << 26)
    else:
        word = 0x91000000 | rng.randrange(1 << 23)
    return word.to_bytes(4, "little"), None


def riscv64(name: str, rng: random.Random) -> tuple[bytes, int | None]:
    """Any of the six branches, JALR, ADDI, of any registers (unprivileged ISA, 2.4 and 2.5)."""
    r = rng.randrange
    if name == "emulate-branch":
        offset = r(16) << 8 | r(128) << 25 | r(2) << 7
        return (0x63 | offset | rng.choice([0, 1, 4, 5, 6, 7]) << 12 | r(32) << 15 | r(32) << 20).to_bytes(4, "little"), None
    source, code = r(1, 32), 0x67 if name == "emulate-call" else 0x13
    word = code | r(32) << 7 | source << 15 | r(1 << 12) << 20
    return word.to_bytes(4, "little"), source if name == "emulate-call" else None


#: Per ISA, who draws an instruction for a consumer, and says which register it jumps through, if it does.
CHOSEN = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}
#: How the CPU's registers are called that fields hold, where not as the fields.
CPU = {
    "x86_64": {"ip": "rip", "flags": "eflags", **{n: f"r{n}" for n in "ax bx cx dx si di bp sp".split()}},
    "arm64": {"pstate": "nzcv"},
    "riscv64": {"epc": "pc"},
}
#: Fields that hold no register of the CPU.
NO_REGISTER = {"orig_ax", "cs", "ss", "orig_x0", "syscallno", "unused", "sdei_ttbr1", "pmr_save", "lockdep_hardirqs", "exit_rcu"}
NO_REGISTER |= {"stackframe[0]", "stackframe[1]", "status", "badaddr", "cause", "orig_a0"}
#: What a state can be that a CPU is put into: conditions, and on x86-64 the bit that is always 1.
CONDITIONS = {"x86_64": (0x8D5, 2), "arm64": (0xF << 28, 0), "riscv64": (0, 0)}


@drawn
@every_isa
@pytest.mark.parametrize("name", ["emulate-branch", "emulate-call", "emulate-step"])
def test_emulated_instructions_do_what_the_cpu_does(isa, name, request):
    """Whatever the instruction, its registers and the condition flags: the same registers after it, and the same stack."""
    the = lab(isa)
    machine, cpu = the.machine, CPU[isa]
    code, sp = machine.places.modules.address + 0x8000, the.stack + 256
    fixed = {r: machine.register(r) for r in the.kernel.isa.fixed}
    ip, status = ROLES[isa][2], ROLES[isa][5]
    for seed in seeds(request.node.name, settings.default.max_examples):
        rng = random.Random(seed)
        instruction, through = CHOSEN[isa](name, rng)
        few_values = [rng.getrandbits(64) for _ in range(3)]
        fields = {p.name: rng.choice(few_values) for p in places(the.kernel.image, PT_REGS) if p.size == WORD}
        allowed, always = CONDITIONS[isa]
        fields |= {ip: code, "sp": sp, status: rng.getrandbits(64) & allowed | always}
        if through:  # somewhere that there is memory
            fields[places(the.kernel.image, PT_REGS)[through].name] = code + rng.randrange(1 << 12)
        the.put(PT_REGS, bytes(512), **fields)
        machine.write(the.stack, bytes(512))
        before = the.held(PT_REGS)
        said = the.read(name, number=int.from_bytes(instruction, "little"))
        emulated, memory = the.held(PT_REGS), machine.read(the.stack, 512)
        machine.write(the.stack, bytes(512))
        machine.poke(code, instruction)
        try:
            for field in before.keys() - NO_REGISTER - {ip}:
                machine.set_register(cpu.get(field, field), before[field])
            assert machine.step(0, code)
            done = {f: machine.register(cpu.get(f, f)) for f in before.keys() - NO_REGISTER}
        finally:
            for register, value in fixed.items():
                machine.set_register(register, value)
        assert {f: emulated[f] for f in done} == done, (instruction.hex(), before)
        assert memory == machine.read(the.stack, 512)
        # and nothing else was written, nor said to have been
        assert {f for f in emulated if emulated[f] != before[f]} <= set(said.wrote)
        assert not set(said.wrote) & (NO_REGISTER | {status})


@every_isa
def test_the_nop_of_a_patch_site_moves_ip_and_nothing_else(isa):
    the = lab(isa)
    ip = ROLES[isa][2]
    the.put(PT_REGS, random.Random(isa).randbytes(512))
    before = the.held(PT_REGS)
    found = the.read("emulate-nop")
    site = {"x86_64": 5, "arm64": 4, "riscv64": 4}[isa]
    assert the.held(PT_REGS) == {**before, ip: before[ip] + site & MASK}
    assert (found.fields, found.wrote) == ((ip,), (ip,))


def test_the_instructions_are_those_that_are_told():
    texts = {
        "x86_64": ["je 0x10", "call 0x100", "push rbx"],
        "arm64": ["b.eq #0x10", "bl #0x100", "add x0, x19, #1"],
        "riscv64": ["beq a0, s1, 0x10", "jalr s1", "addi a0, s1, 1"],
    }
    for isa, known in INSTRUCTIONS.items():
        the = lab(isa)
        at = the.machine.places.modules.address
        for code, text in zip(known.values(), texts[isa], strict=True):
            the.machine.poke(at, code.to_bytes(WORD, "little"))
            found = the.machine.instruction_at(at).text
            assert found.replace(hex(at + 0x10), "0x10").replace(hex(at + 0x100), "0x100") == text
        assert set(known) == {c.name for c in CONSUMERS.values() if c.number == "the instruction"}


# what they read


@every_isa
def test_the_fields_that_they_read_of_a_pt_regs(isa):
    """Exactly those in which the ISA keeps what they ask for."""
    the = lab(isa)
    args, returned, ip, sp, fp, status = ROLES[isa]
    mode, kernel_mode = MODE[isa]
    hardware = {"flags": 2} if isa == "x86_64" else {}
    the.put(PT_REGS, random.Random(1).randbytes(512), **{mode: kernel_mode, "sp": the.stack}, **hardware)
    expected = {
        "user-mode": {mode},
        "callchain": {"x86_64": {"cs", "flags", ip, sp, fp}, "arm64": {mode, ip, fp}, "riscv64": {mode, ip, sp, fp}}[isa],
        "return-value": {returned},
        "instruction-pointer": {ip},
        "stack-pointer": {sp},
        "stack-word": {sp},
        "interrupts": {status},
        "conditions": set() if isa == "riscv64" else {status},
        "emulate-nop": {ip},
        "emulate-branch": {"x86_64": {"flags", ip}, "arm64": {"pstate", ip}, "riscv64": {"a0", "s1", ip}}[isa],
        "emulate-call": {"x86_64": {ip, sp}, "arm64": {ip}, "riscv64": {ip, "s1"}}[isa],
        "emulate-step": {"x86_64": {"bx", ip, sp}, "arm64": {"x19", ip}, "riscv64": {"s1", ip}}[isa],
    }
    for name, fields in expected.items():
        found = the.read(name)
        assert (name, set(found.fields)) == (name, fields)
        assert len(found.beyond) == (name == "stack-word"), name
        assert bool(found.wrote) == CONSUMERS[name].changes
    behind = ("sp",) if isa == "x86_64" else ()
    for n in range(9):
        assert the.read("argument", number=n).fields == ((args[n],) if n < len(args) else behind)
    last, number = LAST_SLOT[isa]
    assert slots(the.kernel, the.at[PT_REGS]) == tuple(p.name for p in places(the.kernel.image, PT_REGS)[: number + 1])
    assert slots(the.kernel, the.at[PT_REGS])[-1] == last


@every_isa
def test_the_fields_that_they_read_of_a_ftrace_regs(isa):
    the = lab(isa)
    args, returned, ip, sp, *_ = ROLES[isa]
    the.put(FTRACE_REGS, bytes(512), sp=the.stack)
    for n, name in enumerate(args):
        assert the.read("argument", FTRACE_REGS, n).fields == (name,)
    for name, field in (("return-value", returned), ("instruction-pointer", ip), ("stack-pointer", sp), ("stack-word", sp)):
        assert the.read(name, FTRACE_REGS).fields == (field,)
    assert the.read("full", FTRACE_REGS).fields == (("cs",) if isa == "x86_64" else ())


@pytest.mark.parametrize(("isa", "release"), [("arm64", "v6.1"), ("riscv64", "v6.4")])
def test_where_a_pt_regs_is_embedded_it_is_full_whatever_is_in_it(isa, release):
    """Up to the move from REGS to ARGS; ftrace_get_regs() does not look."""
    the = lab(isa, release)
    the.put(FTRACE_REGS, bytes(512))
    found = the.read("full", FTRACE_REGS)
    assert (found.answer, found.fields) == (the.at[FTRACE_REGS], ())
    assert places(the.kernel.image, FTRACE_REGS) == places(the.kernel.image, PT_REGS)


# what goes wrong where nobody filled it


@every_isa
def test_zeros_are_user_space_on_arm64_and_riscv64(isa):
    the = lab(isa)
    the.put(PT_REGS, bytes(512))
    user = isa != "x86_64"
    assert the.read("user-mode").answer == user
    assert STARTS[the.read("callchain").answer] == ("nowhere" if user else "here")


@pytest.mark.parametrize(("pstate", "user"), [(0, 1), (0x10, 1), (4, 0), (5, 0), (9, 0), (0x3C0, 1), (0x3C5, 0)])
def test_the_modes_of_arm64(pstate, user):
    """EL0t and AArch32's user mode, whose four lowest bits are 0 alike; EL1t, EL1h, EL2h; and with all interrupts masked."""
    the = lab("arm64")
    the.put(PT_REGS, bytes(512), pstate=pstate)
    assert the.read("user-mode").answer == user


@pytest.mark.parametrize("first", [0, 1])
def test_what_is_left_on_the_stack_decides_where_an_x86_callchain_starts(first):
    """flags that nobody saved: one bit; and up to v6.17 ip is the first entry whatever it says."""
    the = lab("x86_64")
    for garbage, start in ((0x202, "registers"), (0x200, "here"), (0, "here"), (MASK, "registers")):
        the.put(PT_REGS, bytes(512), flags=garbage, ip=0x1234, sp=0x5678, bp=0x9ABC)
        found = the.read("callchain", number=first)
        assert STARTS[found.answer] == start
        assert found.start == (0x1234 if first or start == "registers" else 0, 0x5678, 0x9ABC if start == "registers" else 0)
    assert lab("x86_64").read("callchain").number == 0
    assert lab("x86_64", "v6.16").read("callchain").number == 1


# what is made of a ftrace_regs


def same_in_both(isa: str, fregs: dict[str, int], regs: dict[str, int]) -> dict[str, str]:
    """Field of a ftrace_regs -> that of a pt_regs for the same register."""
    called = {"fp": "x29", "lr": "x30"} if isa == "arm64" else {}
    return {name: called.get(name, name) for name in fregs if called.get(name, name) in regs and name != "unused"}


@every_isa
@few
@given(data=structures, room=structures)
def test_what_they_make_of_a_ftrace_regs(isa, data, room):
    """Every register that it has, and what says that this is the kernel; all else is as it was."""
    the = lab(isa)
    mode, kernel_mode = MODE[isa]
    for what in fills.FILLS:
        for state in fills.states(isa, what):
            the.put(FTRACE_REGS, data)
            the.put(PT_REGS, room)
            fregs, before = the.held(FTRACE_REGS), the.held(PT_REGS)
            found = fills.fill(the.kernel, what, the.at[FTRACE_REGS], the.at[PT_REGS], state)
            copied = isa != "x86_64" or what == "perf"
            assert found.copied == copied and found.address == the.at[PT_REGS if copied else FTRACE_REGS]
            if what == "partial" and not copied:
                flags = {"kernel": fregs["flags"] & ~2, "hardware": fregs["flags"] | 2}
                after = {**fregs, **({"cs": 0x10, "flags": flags[state]} if state in flags else {})}
                assert the.held(PT_REGS) == before
            else:
                taken = same_in_both(isa, fregs, before)
                if what == "perf":
                    _, _, ip, sp, fp, _ = ROLES[isa]
                    wanted = {"x86_64": {ip, sp}, "arm64": {ip, sp, fp}, "riscv64": set()}[isa]
                    taken = {name: field for name, field in taken.items() if field in wanted}
                after = {**before, **{field: fregs[name] for name, field in taken.items()}}
                if state in ("kernel", "caller"):
                    after |= {mode: kernel_mode} | ({"flags": 0} if isa == "x86_64" else {})
                assert set(found.read) == set(taken) and the.held(FTRACE_REGS) == fregs
            assert the.held(PT_REGS if copied else FTRACE_REGS) == after
            assert {name for name, value in after.items() if value != (before if copied else fregs)[name]} <= set(found.wrote)


@every_isa
def test_only_what_says_kernel_gives_a_callchain(isa):
    """A pt_regs of zeros, filled: plain copies and riscv64's perf fill leave user space in it, so nobody looks at a stack."""
    the = lab(isa)
    for what in fills.FILLS:
        for state in fills.states(isa, what):
            the.put(FTRACE_REGS, bytes(512))
            the.put(PT_REGS, bytes(512))
            address = fills.fill(the.kernel, what, the.at[FTRACE_REGS], the.at[PT_REGS], state).address
            lost = isa != "x86_64" and state in ("plain", "nothing")
            assert read(the.kernel, "user-mode", PT_REGS, address).answer == lost
            start = "nowhere" if lost else "registers" if isa != "x86_64" or state == "hardware" else "here"
            assert STARTS[read(the.kernel, "callchain", PT_REGS, address).answer] == start


def test_the_state_of_a_release():
    assert [fills.state(lab("x86_64", r).kernel, "partial") for r in ("v6.16", "v7.2")] == ["plain", "hardware"]
    assert fills.states("x86_64", "partial") == ("plain", "kernel", "hardware")
    assert fills.states("riscv64", "perf") == ("nothing",)
    with pytest.raises(TramplabError, match=r"arm64 v6\.1 has no such use of registers"):
        fills.state(lab("arm64", "v6.1").kernel, "partial")


# what there is, and errors


@every_isa
def test_every_consumer_of_the_guest_is_one_here(isa):
    the = lab(isa)
    begins = {PT_REGS: "lab_regs_", FTRACE_REGS: "lab_fregs_"}
    ours = {begins[kind] + name.replace("-", "_") for name, c in CONSUMERS.items() for kind in c.kinds}
    symbols = the.kernel.image.symbols
    assert {n for n in symbols if n.startswith(("lab_regs_", "lab_fregs_"))} == ours
    # behind all else, so that nothing moves for them
    rest = {n for n in symbols if n.startswith(("lab_partial_", "lab_perf_fill"))} | ours
    assert min(symbols[n].address for n in rest) > the.kernel.image.address("lab_direct_callback_far") >= the.kernel.isa.far_base


@both_kinds
def test_a_stack_that_is_nowhere_is_an_end_and_not_an_answer(kind):
    the = lab("arm64")
    the.put(kind, bytes(512), sp=0x10)
    found = the.read("stack-word", kind)
    assert found.answer is None and "0x10" in found.watched.fault
    assert found.fields == ("sp",)
    assert the.read("stack-pointer", kind).answer == 0x10


@every_isa
def test_a_word_of_another_stack_is_not_read(isa):
    """A kernel's stack is 16 KiB; what is further from sp than its end is 0 and no access."""
    the = lab(isa)
    the.put(PT_REGS, bytes(512), sp=the.stack + (1 << 14) - WORD)
    assert the.read("stack-word", number=0).beyond == (the.stack + (1 << 14) - WORD,)
    found = the.read("stack-word", number=1)
    assert (found.answer, found.beyond) == (0, ())


def test_errors_say_what_to_do():
    the = lab("riscv64")
    kernel, at = the.kernel, the.at[PT_REGS]
    for call, message in [
        (lambda: read(kernel, "user_mode", PT_REGS, at), "unknown consumer 'user_mode'; did you mean user-mode"),
        (lambda: read(kernel, "user-mode", "pt_reg", at), "unknown structure of registers 'pt_reg'; did you mean pt_regs"),
        (lambda: read(kernel, "user-mode", FTRACE_REGS, at), "user-mode reads a pt_regs, not a ftrace_regs"),
        (lambda: read(kernel, "full", PT_REGS, at), "full reads a ftrace_regs, not a pt_regs"),
        (lambda: read(kernel, "user-mode", PT_REGS, at, 1), "user-mode takes no number; leave 1 out"),
        (lambda: read(kernel, "user-mode", PT_REGS, kernel.machine.stack.address + 64), "lowest page of the stack"),
        (lambda: named(kernel.image, PT_REGS, "statu"), "unknown field of riscv64's pt_regs 'statu'; did you mean status"),
        (lambda: fills.fill(kernel, "partly", at, at), "unknown fill 'partly'; did you mean partial"),
        (lambda: fills.states("arm64", "per"), "unknown fill 'per'; did you mean perf"),
        (lambda: fills.fill(kernel, "partial", at, at, "kernel"), r"unknown state of ftrace_partial_regs\(\) on riscv64 'kernel'"),
        (lambda: read(Kernel("riscv64", meter=COUNT), "user-mode", PT_REGS, at), "make the Kernel with meter='record'"),
    ]:
        with pytest.raises(TramplabError, match=message):
            call()
