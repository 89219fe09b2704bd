"""What the hooks of Unicorn count, as tests against the pinned version.

As in test_unicorn_behaviour.py, where the table of architectures is, each test states what this
version does and says which decision of the lab rests on it.
"""

from collections import Counter

import pytest
from unicorn import unicorn_const as uc_const

from support.models.unicorns import ISAS, RISCV64, ROUTINE, X86_64, Isa, accesses, block_sizes, engine, every_isa, issued, run

# --- Instructions and blocks -------------------------------------------------------------------


@every_isa
def test_count_at_mid_block_fault(isa: Isa) -> None:
    """The meter counts with the CODE hook: the faulting instruction is in once (issued, not
    retired) and nothing behind it, while the block is reported to its end."""
    program = 2 * isa.nop + isa.load + 5 * isa.nop
    uc = engine(isa, program)
    uc.reg_write(isa.pointer, 0x10)
    offsets, sizes = issued(uc, isa), block_sizes(uc)
    assert run(uc, isa, program) == uc_const.UC_ERR_READ_UNMAPPED
    unit = len(isa.nop)
    assert offsets == [0, unit, 2 * unit]
    assert sizes == [8 * unit]
    assert uc.reg_read(isa.pc) == isa.text + 2 * unit


@every_isa
def test_count_with_step_limit(isa: Isa) -> None:
    """A run cut short by `emu_start(count=N)` counts N with the CODE hook; by blocks it counts
    more, one reason why blocks are not the meter."""
    program = 8 * isa.nop
    uc = engine(isa, program)
    offsets, sizes = issued(uc, isa), block_sizes(uc)
    assert run(uc, isa, program, count=3) == uc_const.UC_ERR_OK
    unit = len(isa.nop)
    assert offsets == [0, unit, 2 * unit]
    assert sizes == [8 * unit]
    assert uc.reg_read(isa.pc) == isa.text + 3 * unit


@every_isa
@pytest.mark.parametrize("counts_first", [True, False], ids=["count-stop", "stop-count"])
def test_count_when_stopped_in_hook(isa: Isa, counts_first: bool) -> None:
    """A spent budget stops the run from the CODE hook. The instruction stopped at is not executed,
    so the meter stops before it counts; a separate hook that stops is added before the meter."""
    program = 8 * isa.nop
    uc = engine(isa, program)
    unit = len(isa.nop)
    at = isa.text + 2 * unit
    sizes = block_sizes(uc)
    offsets = issued(uc, isa) if counts_first else []
    uc.hook_add(uc_const.UC_HOOK_CODE, lambda uc, *_: uc.emu_stop(), begin=at, end=at)
    offsets = offsets if counts_first else issued(uc, isa)
    assert run(uc, isa, program) == uc_const.UC_ERR_OK
    assert offsets == [0, unit, 2 * unit][: 3 if counts_first else 2]
    assert sizes == [8 * unit]
    assert uc.reg_read(isa.pc) == at


@every_isa
def test_count_of_single_steps(isa: Isa) -> None:
    """The stepper takes count=1 steps, the tables come from whole runs: with CODE counts both
    agree. Each step reports the whole rest of its block."""
    program = 8 * isa.nop
    uc = engine(isa, program)
    offsets, sizes = issued(uc, isa), block_sizes(uc)
    unit = len(isa.nop)
    for step in range(7):
        uc.emu_start(isa.text + step * unit, isa.text + len(program), count=1)
    assert offsets == [step * unit for step in range(7)]
    assert sizes == [(8 - step) * unit for step in range(7)]


@every_isa
def test_count_of_self_modifying_block(isa: Isa) -> None:
    """Guest code never patches the block it is in. On x86 the block is restarted at the store,
    which is then counted twice; elsewhere the count is right, but see test_unicorn_memory.py."""
    program = isa.store + 5 * isa.nop
    uc = engine(isa, program)
    unit = len(isa.nop)
    uc.reg_write(isa.pointer, isa.text + unit)
    uc.reg_write(isa.word, int.from_bytes((isa.copy + 2 * isa.nop)[:8], "little"))
    offsets, sizes = issued(uc, isa), block_sizes(uc)
    assert run(uc, isa, program) == uc_const.UC_ERR_OK
    restarted = isa.sees_own_store
    assert offsets == ([0] if restarted else []) + [n * unit for n in range(6)]
    assert sizes == ([6 * unit, unit, 5 * unit] if restarted else [6 * unit])


@pytest.mark.parametrize(
    "name, code",
    [
        pytest.param("x86_64", "cc", id="int3"),
        pytest.param("arm64", "000020d4", id="brk"),
        pytest.param("riscv64", "73001000", id="ebreak"),
    ],
)
def test_count_at_breakpoint(name: str, code: str) -> None:
    """A breakpoint instruction counts once and ends its block, so a block meter is right too."""
    isa, insn = ISAS[name], bytes.fromhex(code)
    program = isa.nop + insn + 4 * isa.nop
    uc = engine(isa, program)
    offsets, sizes = issued(uc, isa), block_sizes(uc)
    assert run(uc, isa, program) != uc_const.UC_ERR_OK
    assert offsets == [0, len(isa.nop)]
    assert sizes == [len(isa.nop + insn)]


@pytest.mark.parametrize("limit", [0, 100], ids=["no-limit", "limit"])
@pytest.mark.parametrize(
    "code, lost", [pytest.param("0280", False, id="0x8002"), pytest.param("0000", True, id="zero")]
)
def test_count_of_riscv_zero_halfword(code: str, lost: bool, limit: int) -> None:
    """A jump into zeroed memory is one short in the RISC-V count when the run has a step limit (or
    a second CODE hook), so the fault report takes the instruction from pc, not from the meter."""
    program = RISCV64.nop + bytes.fromhex(code) + RISCV64.nop
    uc = engine(RISCV64, program)
    offsets = issued(uc, RISCV64)
    assert run(uc, RISCV64, program, count=limit) == uc_const.UC_ERR_EXCEPTION
    assert offsets == ([0] if lost and limit else [0, 4])


@pytest.mark.parametrize(
    "name, code, size",
    [
        pytest.param("x86_64", "f30f1efa", 4, id="endbr64"),
        pytest.param("x86_64", "0f0b", 0xF1F1F1F1, id="ud2"),
        pytest.param("arm64", "00000000", 4, id="udf"),
        pytest.param("riscv64", "0100", 2, id="c.nop"),
        pytest.param("riscv64", "0280", 2, id="0x8002"),
        pytest.param("riscv64", "0000", 0, id="c.unimp"),
    ],
)
def test_size_given_to_hook(name: str, code: str, size: int) -> None:
    """The meter tells taken branches by pc + size. The size is right for what can be executed, but
    not to be used for the instruction a run died of."""
    isa, program = ISAS[name], bytes.fromhex(code)
    uc = engine(isa, program)
    sizes: list[int] = []
    uc.hook_add(uc_const.UC_HOOK_CODE, lambda _uc, _pc, size, _: sizes.append(size))
    run(uc, isa, program)
    assert sizes == [size]


@pytest.mark.parametrize("length", [0, 1, 10])
def test_count_of_rep(length: int) -> None:
    """A `rep` must be counted once by hand: the CODE hook fires per iteration and for the exit."""
    program = X86_64.nop + bytes.fromhex("f3a4") + X86_64.nop  # nop; rep movsb; nop
    uc = engine(X86_64, program)
    uc.reg_write(X86_64.word, X86_64.data)  # rsi
    uc.reg_write(X86_64.counter, length)
    offsets = issued(uc, X86_64)
    assert run(uc, X86_64, program) == uc_const.UC_ERR_OK
    assert Counter(offsets) == {0: 1, 3: length + 1, 5: 1}


# --- Hooks added late --------------------------------------------------------------------------


@every_isa
@pytest.mark.parametrize("kind", [uc_const.UC_HOOK_CODE, uc_const.UC_HOOK_BLOCK], ids=["CODE", "BLOCK"])
def test_late_hook_is_not_called(isa: Isa, kind: int) -> None:
    """A meter is attached to a fresh instance, or flushes first: blocks that have already run do
    not call it (only the one before the end address does: it is translated anew in every run)."""
    uc = engine(isa, isa.twice)
    run(uc, isa, isa.twice)
    called: list[int] = []
    uc.hook_add(kind, lambda _uc, pc, _size, _: called.append(pc - isa.text))
    run(uc, isa, isa.twice)
    assert not {0, ROUTINE} & set(called)
    uc.ctl_flush_tb()
    called.clear()
    run(uc, isa, isa.twice)
    assert called.count(0) == 1
    assert called.count(ROUTINE) == 2


@every_isa
def test_late_read_hook_misses_some(isa: Isa) -> None:
    """The same for the MEM hook of the cross-check, which is worse: it is called for some reads."""
    uc = engine(isa, isa.twice)
    uc.mem_write(isa.text + ROUTINE, isa.load + isa.seven[isa.first :])  # load; ret
    run(uc, isa, isa.twice)
    events = accesses(uc)
    run(uc, isa, isa.twice)
    late = events.count("R8")
    uc.ctl_flush_tb()
    events.clear()
    run(uc, isa, isa.twice)
    assert 0 < late < events.count("R8")


# --- What the MEM hook reports -----------------------------------------------------------------

ACCESSES = [  # isa, assembly, bytes, events
    ("x86_64", "push rax", "50", "W8"),
    ("x86_64", "pop rax", "58", "R8"),
    ("x86_64", "push [rdi]", "ff37", "R8 W8"),
    ("x86_64", "pop [rdi]", "8f07", "R8 W8"),
    ("x86_64", "call .+5", "e800000000", "W8"),
    ("x86_64", "ret", "c3", "R8"),
    ("x86_64", "add [rdi], rax", "480107", "R8 W8"),
    ("x86_64", "lock add [rdi], rax", "f0480107", "R8 W8"),
    ("x86_64", "xchg [rdi], rax", "488707", "R8 W8"),
    ("x86_64", "lock cmpxchg [rdi], rcx", "f0480fb10f", "R8 W8"),
    ("x86_64", "lock cmpxchg16b [rdi]", "f0480fc70f", "R8 R8 W8 W8"),
    ("x86_64", "movups xmm0, [rdi]", "0f1007", "R8 R8"),
    ("x86_64", "movups [rdi], xmm0", "0f1107", "W8 W8"),
    ("x86_64", "rep movsq", "f348a5", "R8 W8 R8 W8 R8 W8"),  # rcx = 3
    ("x86_64", "lea rax, [rdi]", "488d07", ""),
    ("x86_64", "nop [rax+rax]", "0f1f0400", ""),
    ("x86_64", "mfence", "0faef0", ""),
    ("arm64", "ldp x0, x1, [x2]", "400440a9", "R8 R8"),
    ("arm64", "stp x0, x1, [x2]", "400400a9", "W8 W8"),
    ("arm64", "ldp w0, w1, [x2]", "40044029", "R4 R4"),
    ("arm64", "stp w0, w1, [x2]", "40040029", "W4 W4"),
    ("arm64", "ldp q0, q1, [x2]", "400440ad", "R8 R8 R8 R8"),
    ("arm64", "stp q0, q1, [x2]", "400400ad", "W8 W8 W8 W8"),
    ("arm64", "ldr q0, [x2]", "4000c03d", "R8 R8"),
    ("arm64", "ldur x0, [x2, #1]", "401040f8", "R8"),  # misaligned
    ("arm64", "ldxr; stxr", "407c5fc8 417c04c8", "R8 R8 W8"),  # the second read is spurious
    ("arm64", "stxr w4, x1, [x2]", "417c04c8", ""),  # fails, no reservation
    ("arm64", "prfm pldl1keep, [x2]", "400080f9", ""),
    ("arm64", "bl .+4", "01000094", ""),
    ("arm64", "dmb ish", "bf3b03d5", ""),
    ("arm64", "dc zva, x2", "22740bd5", " ".join(["W1"] * (4 + 64))),  # 4 probes
    ("riscv64", "ld a0, 0(a2)", "03350600", "R8"),
    ("riscv64", "c.sdsp ra, 0(sp)", "06e0", "W8"),
    ("riscv64", "ld a0, 1(a2)", "03351600", "R8"),  # misaligned
    ("riscv64", "amoadd.d a0, a1, (a2)", "2f35b600", "R8 W8"),
    ("riscv64", "amoswap.d a0, a1, (a2)", "2f35b608", "R8 W8"),
    ("riscv64", "lr.d; sc.d", "2f350610 2f37b618", "R8 R8 W8"),  # the second read is spurious
    ("riscv64", "sc.d a4, a1, (a2)", "2f37b618", ""),  # fails, no reservation
    ("riscv64", "jal ra, .+4", "ef004000", ""),
    ("riscv64", "fence", "0f00f00f", ""),
]


@pytest.mark.parametrize(
    "name, code, events",
    [(name, code, events) for name, _, code, events in ACCESSES],
    ids=[f"{name}-{assembly}" for name, assembly, *_ in ACCESSES],
)
def test_access_granularity(name: str, code: str, events: str) -> None:
    """Loads, stores and their bytes come from static decode; the MEM hook is the oracle in the
    tests, after this translation: one event for at most eight bytes, exclusives read once more."""
    isa, program = ISAS[name], bytes.fromhex(code)
    uc = engine(isa, program)
    uc.mem_write(isa.data + 0x800, (isa.text + len(program)).to_bytes(8, "little"))  # for ret
    uc.reg_write(isa.word, isa.data)  # rsi
    uc.reg_write(isa.counter, 3)  # rcx
    seen = accesses(uc)
    assert run(uc, isa, program) == uc_const.UC_ERR_OK
    assert seen == events.split()
