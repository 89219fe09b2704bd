"""The three ISA records and their branch encoders, held against the assembler and the linker of the compiler wheel."""

import dataclasses
import itertools
import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from tramplab import Kernel, Ops
from tramplab.base.errors import TramplabError
from tramplab.build.toolchain import run_tool
from tramplab.emulate import decode
from tramplab.isa import ISAS, arm64, get, riscv64, x86_64

every_isa = pytest.mark.parametrize("isa", ISAS.values(), ids=lambda i: i.name)

#: Far from both ends of the address space, so that every reach stays inside it.
PC = 0xFFFF_8000_0000_0000

#: (record's branch, mnemonic of the same instruction, ISA)
BRANCHES = {
    "x86 call": (x86_64.CALL, "call", x86_64.ISA),
    "x86 jmp": (x86_64.JMP, "jmp", x86_64.ISA),
    "arm64 bl": (arm64.BL, "bl", arm64.ISA),
    "arm64 b": (arm64.B, "b", arm64.ISA),
    "riscv call through t0": (riscv64.CALL_T0, "call t0,", riscv64.ISA),
    "riscv call through ra": (riscv64.CALL_RA, "call", riscv64.ISA),
}
every_branch = pytest.mark.parametrize("name", BRANCHES)
#: Targets are multiples of this.
STEP = {"x86_64": 1, "arm64": 4, "riscv64": 1}
FLAGS = {"x86_64": [], "arm64": [], "riscv64": ["-march=rv64imac", "-mno-relax"]}


def assemble(isa, source: str, folder: Path) -> bytes:
    """The bytes of some assembly, from clang; addresses are relative to its first instruction."""
    (folder / "t.S").write_text(source + "\n", "utf-8")
    run_tool("clang", f"--target={isa.triple}", *FLAGS[isa.name], "-c", "t.S", "-o", "t.o", cwd=folder)
    with (folder / "t.o").open("rb") as f:
        return ELFFile(f).get_section_by_name(".text").data()


def link(isa, source: str, targets: dict[str, int], folder: Path) -> bytes:
    """The bytes of some assembly at PC, its symbols put where `targets` says; out of reach is the linker's error."""
    (folder / "t.S").write_text(".globl _start\n_start:\n" + source + "\n", "utf-8")
    run_tool("clang", f"--target={isa.triple}", *FLAGS[isa.name], "-c", "t.S", "-o", "t.o", cwd=folder)
    symbols = [f"--defsym={n}={v & (1 << 64) - 1:#x}" for n, v in targets.items()]
    run_tool("ld.lld", "-static", "--no-relax", f"-Ttext={PC:#x}", *symbols, "t.o", "-o", "t.elf", cwd=folder)
    with (folder / "t.elf").open("rb") as f:
        return ELFFile(f).get_section_by_name(".text").data()


def sample(reach: tuple[int, int], step: int) -> list[int]:
    """Offsets worth trying: both ends, around zero, around every power of two, all multiples of `step`."""
    powers = [s * (1 << n) + d for s, n, d in itertools.product((1, -1), range(2, 33), (-step, 0, step))]
    return sorted({o for o in (*reach, 0, *powers) if reach[0] <= o <= reach[1] and o % step == 0})


def sext(value: int, bits: int) -> int:
    return (value & (1 << bits) - 1) - (1 << bits if value >> bits - 1 & 1 else 0)


# --- The records


@every_isa
def test_roles_cover_the_registers_without_overlap(isa):
    """Every general register has exactly one of five roles; names are unique."""
    roles = [*isa.args, *isa.callee_saved, *isa.scratch, *isa.fixed, *([isa.link] if isa.link else [])]
    assert len(set(isa.registers)) == len(isa.registers)
    assert sorted(roles) == sorted(isa.registers)


@every_isa
def test_special_registers_fit_the_convention(isa):
    """sp is nobody's to randomise, fp survives a call, results come in caller-saved registers, and whatever else
    may hold a return address is a register that a function may lose."""
    assert isa.sp in isa.fixed and isa.fp in isa.callee_saved
    assert set(isa.returns) <= {*isa.args, *isa.scratch}
    assert isa.struct_return in {*isa.args, *isa.scratch}
    assert (isa.link is None) == (isa.call_pushes > 0)
    links = set(isa.return_stack.link_registers)
    assert links - {isa.link} <= set(isa.scratch) and (isa.link in links if isa.link else not links)
    assert isa.pc not in isa.registers


@every_isa
def test_image_areas_do_not_touch(isa):
    """Text, modules and the far stubs lie in this order, page-aligned, far enough apart for each other's mappings."""
    assert isa.text_base < isa.module_base < isa.far_base < 1 << 64
    for a, b in itertools.pairwise((isa.text_base, isa.module_base, isa.far_base)):
        assert a % 4096 == b % 4096 == 0 and b - a >= 1 << 24


@pytest.mark.parametrize("role", ["args", "callee_saved", "scratch", "fixed", "returns"])
def test_a_role_needs_a_register(role):
    """A record that names a register it does not have is refused where it is made."""
    with pytest.raises(TramplabError, match="x99"):
        dataclasses.replace(arm64.ISA, **{role: ("x99",)})


def test_records_are_data():
    """Nobody changes a record, and each is found by its own name."""
    for name, isa in ISAS.items():
        assert get(name) is isa and isa.name == name
        with pytest.raises(dataclasses.FrozenInstanceError):
            isa.nops = {}


# --- Encoders


@every_branch
def test_encoder_equals_the_linker(name, tmp_path):
    """A branch at PC to many targets, both ends of the reach included, is what clang and lld make of it."""
    branch, mnemonic, isa = BRANCHES[name]
    offsets = sample(branch.reach, STEP[isa.name])
    # the n-th branch lies n * size behind PC; its target moves along
    targets = {f"t{n}": PC + n * branch.size + o for n, o in enumerate(offsets)}
    linked = link(isa, "\n".join(f"{mnemonic} {t}" for t in targets), targets, tmp_path)
    assert len(linked) == branch.size * len(offsets)
    for n, o in enumerate(offsets):
        at = PC + n * branch.size
        assert branch.encode(at, at + o) == linked[n * branch.size : (n + 1) * branch.size], hex(o)
        assert branch.reaches(at, at + o)


@every_branch
@pytest.mark.parametrize("end", [0, 1], ids=["below", "above"])
def test_reach_is_exact(name, end, tmp_path):
    """One step beyond either end the record says no, and so does the assembler or linker; at the end both say yes."""
    branch, mnemonic, isa = BRANCHES[name]
    step = STEP[isa.name] if end else -STEP[isa.name]
    last, beyond = branch.reach[end], branch.reach[end] + step
    assert branch.reaches(PC, PC + last) and not branch.reaches(PC, PC + beyond)

    def made(offset: int) -> bytes:
        if isa is arm64.ISA:  # the linker would help out with a thunk
            return assemble(isa, f"{mnemonic} .{offset:+d}", tmp_path)
        return link(isa, f"{mnemonic} target", {"target": PC + offset}, tmp_path)

    assert made(last) == branch.encode(PC, PC + last)
    with pytest.raises(TramplabError, match="range"):
        made(beyond)


@given(st.integers(*riscv64.CALL_T0.reach), st.sampled_from([("ra", riscv64.CALL_RA, 1), ("t0", riscv64.CALL_T0, 5)]))
def test_pair_adds_up(offset, which):
    """AUIPC's upper part and JALR's signed low part add up to the offset, through one and the same register."""
    _, branch, number = which
    upper, second = struct.unpack("<II", branch.encode(PC, PC + offset))
    assert (upper & 0x7F, upper >> 7 & 31) == (0x17, number)
    assert (second & 0x7F, second >> 7 & 31, second >> 12 & 7, second >> 15 & 31) == (0x67, number, 0, number)
    assert sext(upper >> 12, 20) * 4096 + sext(second >> 20, 12) == offset


@given(st.integers(-(1 << 31), (1 << 31) - 1 - 0x800))
def test_split_offset(offset):
    """The low part is signed and 12 bits wide; an offset with bit 11 set gets the next upper part."""
    upper, low = riscv64.split_offset(offset)
    assert -2048 <= low <= 2047 and (upper << 12) + low == offset


def test_negative_low_part_equals_clang(tmp_path):
    """Around bit 11, where the low part turns negative, AUIPC and JALR alone are what clang writes for them."""
    for low in (0, 1, 2047, -1, -2048):
        source = f"auipc t0, 0x12\njalr t0, {low}(t0)\njalr ra, {low}(ra)\n"
        made = riscv64.auipc(5, 0x12) + riscv64.jalr(5, 5, low) + riscv64.jalr(1, 1, low)
        # without compression: the kernel's pairs are two full instructions
        assert made == assemble(riscv64.ISA, ".option norvc\n" + source, tmp_path)
    assert riscv64.auipc(5, -1) == assemble(riscv64.ISA, "auipc t0, 0xfffff", tmp_path)


# --- Patch sites

#: As hexadecimal bytes in memory, and as assembly.
SITE_CODE = [
    (x86_64.ISA, x86_64.NOP5, "0f1f440000", "nopl 8(%rax,%rax)"),
    (x86_64.ISA, x86_64.INT3, "cc", "int3"),
    (x86_64.ISA, x86_64.ENDBR64, "f30f1efa", "endbr64"),
    (x86_64.ISA, x86_64.ISA.nops[1], "90", "nop"),
    (arm64.ISA, arm64.MOV_X9_LR, "e9031eaa", "mov x9, x30"),
    (arm64.ISA, arm64.NOP, "1f2003d5", "nop"),
    (riscv64.ISA, riscv64.NOP4, "13000000", ".option norvc\nnop"),
    (riscv64.ISA, riscv64.C_NOP, "0100", "c.nop"),
    (riscv64.ISA, riscv64.SD_RA, "233c11fe", ".option norvc\nsd ra, -8(sp)"),
    (riscv64.ISA, riscv64.LD_RA, "833081ff", ".option norvc\nld ra, -8(sp)"),
]


@pytest.mark.parametrize(
    ("isa", "mine", "published", "source"), SITE_CODE, ids=[f"{r[0].name} {r[3].split(chr(10))[-1]}" for r in SITE_CODE]
)
def test_site_instructions(isa, mine, published, source, tmp_path):
    """The instructions of idle and prepared sites, byte for byte as published and as clang writes them."""
    assert mine == bytes.fromhex(published)
    if mine != x86_64.NOP5:  # its displacement of zero cannot be asked for in assembly
        assert mine == assemble(isa, source, tmp_path)


def part(size: int, value: int, mask: int = -1) -> tuple[int, int, int]:
    """A stretch of a site: bytes, value as a little-endian number, and which of its bits are fixed."""
    return size, value, mask & (1 << 8 * size) - 1


ENDBR, NOP5, CALL = part(4, 0xFA1E_0FF3), part(5, 0x00_0044_1F0F), part(5, 0xE8, 0xFF)
MOV, NOP, BL = part(4, 0xAA1E_03E9), part(4, 0xD503_201F), part(4, 0x9400_0000, 0xFC00_0000)
NOP4, SD, LD = part(4, 0x0000_0013), part(4, 0xFE11_3C23), part(4, 0xFF81_3083)
AUIPC_RA, JALR_RA = part(4, 0x097, 0xFFF), part(4, 0x080E7, 0xFFFFF)
AUIPC_T0, JALR_T0 = part(4, 0x297, 0xFFF), part(4, 0x282E7, 0xFFFFF)

#: What a function starts with at boot, and while a trampoline is called.
SITES = [
    ("x86_64", "v6.1", [NOP5], [CALL]),
    ("x86_64", "v6.12", [ENDBR, NOP5], [ENDBR, CALL]),
    ("arm64", "v6.1", [MOV, NOP], [MOV, BL]),
    ("arm64", "v6.12", [MOV, NOP], [MOV, BL]),
    ("riscv64", "v6.1", [NOP4] * 4, [SD, AUIPC_RA, JALR_RA, LD]),
    ("riscv64", "v6.12", [NOP4] * 2, [AUIPC_T0, JALR_T0]),
    ("riscv64", "v7.2", [AUIPC_T0, NOP4], [AUIPC_T0, JALR_T0]),
]


def looks_like(parts: list[tuple[int, int, int]], data: bytes) -> bool:
    for size, value, mask in parts:
        if int.from_bytes(data[:size], "little") & mask != value:
            return False
        data = data[size:]
    return True


@pytest.mark.parametrize(("isa", "release", "idle", "calling"), SITES, ids=[f"{s[0]}-{s[1]}" for s in SITES])
def test_sites_in_guest_memory(isa, release, idle, calling):
    """Every function of a booted kernel starts with its release's idle site, with the calling one while an ops is
    attached, and after that with the very same bytes as at boot."""
    k = Kernel(isa, release)
    size = sum(s for s, _, _ in idle)

    def starts() -> dict[str, bytes]:
        return {n: k.machine.read(k.function(n).address, size) for n in k.functions}

    booted = starts()
    assert [n for n, data in booted.items() if not looks_like(idle, data)] == []
    with k.attached(None, Ops()):
        assert [n for n, data in starts().items() if not looks_like(calling, data)] == []
    assert starts() == booted


@pytest.mark.parametrize(
    ("isa", "release"), [("arm64", "v6.3"), ("arm64", "v7.2"), ("riscv64", "v6.16"), ("riscv64", "v7.2")]
)
def test_literal_before_an_aligned_function(isa, release):
    """With CALL_OPS, functions are 8-byte aligned and the 8 bytes before each hold ftrace_nop_ops when idle."""
    k = Kernel(isa, release)
    for n in k.functions:
        address = k.function(n).address
        assert address % 8 == 0
        assert k.machine.read_u64(address - 8) == k.image.address("ftrace_nop_ops")


@every_isa
def test_every_nop_is_one_instruction_of_its_size(isa):
    for size, code in isa.nops.items():
        i = decode.at(isa, isa.text_base, code)
        assert len(code) == size == i.size and i.mnemonic.removeprefix("c.") == "nop"
