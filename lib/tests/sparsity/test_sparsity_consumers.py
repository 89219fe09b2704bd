"""Consumers of registers: what each says of a full structure, as worked out here; which fields it reads; and the wrong answers that
a structure which is filled in part leads to."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.models.register_lab import MASK, MODE, ROLES, WORD, few, lab, structures
from tramplab import Kernel
from tramplab.base.errors import TramplabError
from tramplab.emulate.machine import COUNT
from tramplab.isa import ISAS
from tramplab.sparsity.consumers.consumers import CONSUMERS, STARTS, read, slots
from tramplab.sparsity.structures import fills
from tramplab.sparsity.structures.fields import FTRACE_REGS, PT_REGS, named, places

every_isa = pytest.mark.parametrize("isa", ISAS)
both_kinds = pytest.mark.parametrize("kind", [PT_REGS, FTRACE_REGS])
#: The last field that regs_get_register() gives out (MAX_REG_OFFSET of each ISA's asm/ptrace.h), and how many come before.
LAST_SLOT = {"x86_64": ("ss", 20), "arm64": ("pstate", 33), "riscv64": ("orig_a0", 35)}
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
        "return-value": {returned, mode} if isa == "arm64" else {returned},  # which may be a process's of 32 bits
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
