"""BPF instructions as bytes and as text, held against clang's assembler, and what is outside the subset."""

import random
import struct

import pytest
from elftools.elf.elffile import ELFFile

from support.plugins.seeds import drawn, seeds
from tramplab.base.errors import TramplabError
from tramplab.build.toolchain import run_tool
from tramplab.sparsity.context import helpers
from tramplab.sparsity.context.arithmetic import operate, signed
from tramplab.sparsity.context.encoding import (
    ALU,
    ALU64,
    CALL,
    CONDITIONS,
    EXIT,
    JA,
    JMP,
    JMP32,
    LDX,
    MEM,
    MEMSX,
    OPERATIONS,
    SIZES,
    ST,
    STX,
    Instruction,
    X,
    decoded,
    encoded,
)
from tramplab.sparsity.context.text import assembled, listing, shown

#: Opcodes of the subset: 12 operations with either operand in two widths and two negations; 11 conditions likewise; 7 loads, 8
#: stores; the wide immediate, two jumps, the call, the exit.
EVERY = 2 * (12 * 2 + 1) + 2 * 11 * 2 + 7 + 8 + 5


def any_instruction(rng: random.Random) -> Instruction:
    """One of the subset, of every kind about as often."""
    dst, src = rng.randrange(11), rng.randrange(11)
    off, size = rng.randrange(-(1 << 15), 1 << 15), rng.choice([1, 2, 4, 8])
    imm = rng.choice((0, 7, -1, rng.getrandbits(32) - (1 << 31)))
    by_register = rng.random() < 0.5
    second = {"src": src} if by_register else {"imm": imm}
    match rng.choice("wide load store immediate operation divide negate extend branch goto gotol call exit".split()):
        case "wide":
            return Instruction(SIZES[8], dst, rng.choice((0, 1)), 0, rng.getrandbits(64))
        case "load":
            return Instruction(LDX | (MEMSX if size < 8 and by_register else MEM) | SIZES[size], dst, src, off)
        case "store":
            return Instruction(STX | MEM | SIZES[size], dst, src, off)
        case "immediate":
            return Instruction(ST | MEM | SIZES[size], dst, 0, off, imm)
        case "operation":
            name = rng.choice([n for n in OPERATIONS if n != "-"])
            return Instruction(rng.choice((ALU, ALU64)) | OPERATIONS[name] | X * by_register, dst, **second)
        case "divide":
            name = rng.choice(("/=", "%="))
            return Instruction(rng.choice((ALU, ALU64)) | OPERATIONS[name] | X * by_register, dst, off=1, **second)
        case "negate":
            return Instruction(rng.choice((ALU, ALU64)) | OPERATIONS["-"], dst)
        case "extend":
            kind = rng.choice((ALU, ALU64))
            return Instruction(kind | OPERATIONS["="] | X, dst, src, rng.choice((8, 16, 32)[: 3 if kind == ALU64 else 2]))
        case "branch":
            condition = CONDITIONS[rng.choice(list(CONDITIONS))]
            return Instruction(rng.choice((JMP, JMP32)) | condition | X * by_register, dst, off=off, **second)
        case "goto":
            return Instruction(JMP | JA, off=off)
        case "gotol":
            return Instruction(JMP32 | JA, imm=imm)
        case "call":
            return Instruction(JMP | CALL, imm=rng.choice((*helpers.HELPERS, 99)))
    return Instruction(JMP | EXIT)


def any_program(seed: int, most: int = 40):
    rng = random.Random(seed)
    instructions = [any_instruction(rng) for _ in range(rng.randint(1, most))]
    return tuple(slot for i in instructions for slot in ([i, None] if i.wide else [i]))


@drawn
@pytest.mark.parametrize("seed", seeds("bpf encoding", 20))
def test_programs_are_the_same_after_bytes_and_after_text(seed):
    program = any_program(seed)
    assert decoded(encoded(program)) == program
    assert assembled("\n".join(text for _, text in listing(program))) == program


def written_by_clang(i: Instruction) -> bool:
    """Its assembler takes no number of more than 16 bits for a jump's target, where its compiler has 32."""
    return i.jump is None or -(1 << 15) <= i.jump < 1 << 15


def in_clangs_words(program) -> str:
    """clang knows helpers by their numbers, and maps from the loader."""
    words = {h.name: str(h.number) for h in helpers.HELPERS.values()}
    return "\n".join(" ".join(words.get(w, w) for w in text.split()) for _, text in listing(program))


def by_clang(folder, text: str) -> bytes:
    """The bytes of BPF assembly, of the latest version of the instruction set that the compiler knows."""
    (folder / "p.s").write_text(text + "\n", "utf-8")
    run_tool("clang", "--target=bpfel", "-mcpu=v4", "-c", "p.s", "-o", "p.o", cwd=folder)
    with (folder / "p.o").open("rb") as f:
        return ELFFile(f).get_section_by_name(".text").data()


def test_clang_makes_the_same_bytes_of_the_same_text(tmp_path):
    """Every kind of instruction many times over, in one run of the assembler."""
    drawn_here = [i for seed in seeds("bpf by clang", 300) for i in any_program(seed, 120)]
    kept = [i for i in drawn_here if i and not (i.wide and i.src) and written_by_clang(i)]
    assert len({i.opcode for i in kept}) == EVERY
    program = tuple(slot for i in kept for slot in ([i, None] if i.wide else [i]))
    assert by_clang(tmp_path, in_clangs_words(program)) == encoded(program)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (b"", "a number of 8-byte slots, not 0"),
        (bytes(7), "not 7 bytes"),
        (struct.pack("<BBhi", 0xDB, 0x21, 0, 0), "instruction 0, db 21 00 00 00 00 00 00, is outside"),  # an atomic addition
        (struct.pack("<BBhi", 0x95, 0, 0, 0) + struct.pack("<BBhi", 0xD4, 1, 0, 16), "instruction 1, d4"),  # a byte swap
        (struct.pack("<BBhi", 0x85, 0x10, 0, 1), "instruction 0, 85"),  # a call of the program's own
        (struct.pack("<BBhi", 0x18, 1, 0, 0), "instruction 0, 18"),  # its second half is missing
        (struct.pack("<BBhi", 0xB7, 0x0B, 0, 0), "instruction 0, b7"),  # r11
        (struct.pack("<BBhi", 0x27, 0x00, 1, 3), "instruction 0, 27"),  # a signed multiplication
        (struct.pack("<BBhi", 0x37, 0x00, 2, 3), "instruction 0, 37"),  # a division that is neither signed nor not
        (struct.pack("<BBhi", 0x79, 0x10, 8, 1), "instruction 0, 79"),  # a load with an immediate
        (struct.pack("<BBhi", 0x99, 0x10, 8, 0), "instruction 0, 99"),  # a signed load of eight bytes
    ],
)
def test_what_is_outside_the_subset_is_named(code, why):
    with pytest.raises(TramplabError, match=why):
        decoded(code)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("r0 = r11", "'r0 = r11' is no BPF instruction"),
        ("r0 = w1", "'r0 = w1' is no"),
        ("r0 = *(s64 *)(r1 + 0)", "is no BPF instruction"),
        ("r0 = *(u64 *)(r1 + 32768)", "is no BPF instruction"),
        ("r0 = 0x123456789", "is no BPF instruction"),
        ("r0 =+ 1", "is no BPF instruction"),
        ("if r0 = 1 goto +1", "is no BPF instruction"),
        ("r0 = 1 2", "is no BPF instruction"),
        ("r0 = 1 +", "is no BPF instruction"),
        ("r0 = 1_0", "is no BPF instruction"),
        ("r0 = ٣", "is no BPF instruction"),
        ("goto +1_0", "is no BPF instruction"),
        ("call 1_0", "is no BPF instruction"),
        ("call 99999999999", "is no BPF instruction"),
        ("a:\na:\nexit", "label 'a' is there twice"),
        ("goto nowhere", "unknown label 'nowhere'"),
        ("call bpf_get_stackd", "did you mean bpf_get_stack"),
        ("r0 = *(u64 *)(r1 + $argumnet1)", "unknown name in a BPF program 'argumnet1'; did you mean argument1"),
    ],
)
def test_a_line_that_is_no_instruction_is_named(text, why):
    with pytest.raises(TramplabError, match=why):
        assembled(text, {"argument1": 112})


def test_labels_count_slots_and_not_lines():
    program = assembled("goto end\nr1 = 5 ll\n# a remark\nend:\nexit")
    assert [shown(i) for i in program if i] == ["goto +2", "r1 = 0x5 ll", "exit"]


@pytest.mark.parametrize(
    ("operation", "a", "b", "bits", "result"),
    [  # RFC 9669, section 4.1: what is not to be guessed
        ("/=", 7, 0, 64, 0),
        ("%=", 7, 0, 64, 7),
        ("%=", (1 << 40) + 7, 0, 32, 7),
        ("s/=", 1 << 63, -1, 64, 1 << 63),
        ("s%=", 1 << 63, -1, 64, 0),
        ("s/=", -13, 3, 64, -4),
        ("s%=", -13, 3, 64, -1),
        ("s%=", -13, 3, 32, (1 << 32) - 1),
        ("<<=", 1, 65, 64, 2),
        ("s>>=", 1 << 31, 33, 32, 0xC0000000),
        (">>=", -1, 4, 32, 0x0FFFFFFF),
        ("-", 1, 0, 32, 0xFFFFFFFF),
        ("+=", (1 << 64) - 1, 2, 64, 1),
        ("=", 9, -1, 32, 0xFFFFFFFF),
    ],
)
def test_operations_where_they_surprise(operation, a, b, bits, result):
    assert operate(operation, a, b, bits) == result & (1 << 64) - 1
    assert signed(operate(operation, a, b, bits), 64) == signed(result, 64)
