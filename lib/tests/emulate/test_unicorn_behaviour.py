"""What Unicorn does on traps, NOPs and missing instructions, as tests against the pinned version.

None of this is promised by Unicorn's documentation and some of it is a known defect, so each test
states what this version does, right or wrong, and says which decision of the lab rests on it.
A test that fails after an upgrade means: revisit that decision first, then change the test.
"""

import pytest
import unicorn
from unicorn import arm64_const as a64
from unicorn import unicorn_const as uc_const

from support.models.unicorns import ARM64, INVALID, ISAS, NOPS, SENTINEL, TRAPS, X86_64, engine, issued, run, traps


def test_version() -> None:
    """Everything here was measured on this version: a bump reruns and rereads all three modules."""
    assert unicorn.__version__ == "2.1.4"


@pytest.mark.parametrize(
    "name, code, trap, pc",
    [(name, code, trap, pc) for name, _, code, trap, pc in TRAPS],
    ids=[f"{name}-{assembly}" for name, assembly, *_ in TRAPS],
)
def test_trap(name: str, code: str, trap: int | str, pc: int) -> None:
    """A guest fault is reported as symbol+offset and instruction. Which hook to listen to, the
    number, and what to subtract from pc come from this table. Guest code is built without what
    traps here: AVX, LSE atomics, combined pointer authentication, rdtime."""
    isa, insn = ISAS[name], bytes.fromhex(code)
    program = isa.nop + insn + 4 * isa.nop
    uc = engine(isa, program)
    seen = traps(uc)
    error = run(uc, isa, program)
    assert seen == [trap]
    assert error == (uc_const.UC_ERR_INSN_INVALID if trap == INVALID else uc_const.UC_ERR_OK)
    assert uc.reg_read(isa.pc) - isa.text - len(isa.nop) == pc
    # With nobody listening the run still ends with an error, never silently.
    unheard = run(engine(isa, program), isa, program)
    assert unheard == (uc_const.UC_ERR_INSN_INVALID if trap == INVALID else uc_const.UC_ERR_EXCEPTION)


def test_hlt_stops_silently() -> None:
    """A run that ended has not thereby arrived: x86 `hlt` stops without error or trap. Hence the
    machine compares pc with the address it ran towards."""
    program = bytes.fromhex("f4") + 4 * X86_64.nop  # hlt
    uc = engine(X86_64, program)
    seen = traps(uc)
    assert run(uc, X86_64, program) == uc_const.UC_ERR_OK
    assert seen == []
    assert uc.reg_read(X86_64.pc) == X86_64.text + 1


@pytest.mark.parametrize(
    "name, code",
    [
        pytest.param("arm64", "e0039fd6", id="eret"),
        pytest.param("riscv64", "73002010", id="sret"),
        pytest.param("riscv64", "73002030", id="mret"),
    ],
)
def test_exception_return_leads_to_zero(name: str, code: str) -> None:
    """The lab kernel has no exception entry in guest code: a trap sets up nothing to return to."""
    isa, program = ISAS[name], bytes.fromhex(code)
    uc = engine(isa, program)
    assert run(uc, isa, program) == uc_const.UC_ERR_FETCH_UNMAPPED
    assert uc.reg_read(isa.pc) == 0


@pytest.mark.parametrize(
    "name, code",
    [(name, code) for name, _, code in NOPS],
    ids=[f"{name}-{assembly}" for name, assembly, _ in NOPS],
)
def test_executed_as_nop(name: str, code: str) -> None:
    """Landing pads and pointer authentication cost one instruction and do nothing (x30 keeps its
    plain value): the lab counts them and does not claim to show what they protect against."""
    isa, program = ISAS[name], bytes.fromhex(code)
    uc = engine(isa, program)
    before = [SENTINEL + n for n in range(len(isa.registers))]
    for register, sentinel in zip(isa.registers, before, strict=True):
        uc.reg_write(register, sentinel)
    seen, offsets = traps(uc), issued(uc, isa)
    assert run(uc, isa, program) == uc_const.UC_ERR_OK
    assert (seen, offsets) == ([], [0])
    assert [uc.reg_read(register) for register in isa.registers] == before


@pytest.mark.parametrize("model", [None, a64.UC_CPU_ARM64_A72], ids=["default", "A72"])
def test_arm64_default_model_is_cortex_a72(model: int | None) -> None:
    """The arm64 lab sets no model: the default already is the core of the cycle estimates."""
    program = bytes.fromhex("000038d5")  # mrs x0, midr_el1
    uc = engine(ARM64, program, model=model)
    assert run(uc, ARM64, program) == uc_const.UC_ERR_OK
    assert uc.reg_read(ARM64.value) == 0x410F_D083  # Arm, part 0xd08, r0p3


@pytest.mark.parametrize(
    "model, ends",
    [(a64.UC_CPU_ARM64_MAX, uc_const.UC_ERR_OK), (a64.UC_CPU_ARM64_A72, uc_const.UC_ERR_EXCEPTION)],
    ids=["MAX", "A72"],
)
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("410020f8", id="ldadd x0, x1, [x2]"),
        pytest.param("e023c1da", id="paciza x0"),
        pytest.param("fe0303aa ff0b5fd6", id="mov x30, x3; retaa"),
    ],
)
def test_arm64_beyond_v8_0_needs_model_max(code: str, model: int, ends: int) -> None:
    """Guest code is compiled for v8.0; a study of LSE or of retaa would have to select MAX."""
    program = bytes.fromhex(code)
    uc = engine(ARM64, program, model=model)
    uc.reg_write(ARM64.counter, ARM64.text + len(program))
    assert run(uc, ARM64, program) == ends
