"""The engine by itself on three architectures: snippets, and what runs them, for the tests of what it does.

Machine code stands as bytes beside its assembly; the tests need no assembler.
"""

from dataclasses import dataclass

import pytest
import unicorn
from unicorn import UcError
from unicorn import arm64_const as a64
from unicorn import riscv_const as rv
from unicorn import unicorn_const as uc_const
from unicorn import x86_const as x86

PAGE = 0x1000
ROUTINE = 0x40  # from the start of text: where `call` and `call_again` of an Isa lead
SENTINEL = 0x5A5A5A5A5A5A5A5A


@dataclass(frozen=True)
class Isa:
    """One architecture: engine ids, the registers the snippets use, and the snippets.

    `nop`, `load`, `store`, `copy` and `sync` have one length, so that block sizes can be turned
    into instruction counts; `seven` and `nine` are eight bytes, so that one store replaces them.
    """

    name: str
    arch: int
    mode: int
    text: int  # a kernel text address
    default_tlb_error: int  # how a run at `text` ends without UC_TLB_VIRTUAL
    sees_own_store: bool  # a block that patches itself is restarted after the store
    pc: int
    sp: int
    value: int  # result of `seven`, `nine`, `load`
    kept: int  # destination of `copy`
    pointer: int  # address register of `load` and `store`
    word: int  # register stored by `store`
    counter: int  # count register of `rep`; any free one elsewhere
    registers: tuple[int, ...]  # the general-purpose ones
    nop: bytes
    load: bytes
    store: bytes
    copy: bytes
    sync: bytes  # instruction-stream barrier; a nop where the architecture asks for none
    call: bytes
    call_again: bytes
    seven: bytes
    nine: bytes
    first: int  # length of the first instruction of `seven` and `nine`

    @property
    def data(self) -> int:
        return self.text + 0x10000

    @property
    def twice(self) -> bytes:
        """Call the routine, keep its value, store somewhere, call the routine again."""
        return self.call + self.copy + self.store + self.call_again

    def __str__(self) -> str:
        return self.name


# fmt: off
X86_64 = Isa(
    "x86_64", uc_const.UC_ARCH_X86, uc_const.UC_MODE_64, 0xFFFF_FFFF_8100_0000,
    default_tlb_error=uc_const.UC_ERR_FETCH_UNMAPPED, sees_own_store=True,
    pc=x86.UC_X86_REG_RIP, sp=x86.UC_X86_REG_RSP,
    value=x86.UC_X86_REG_RAX, kept=x86.UC_X86_REG_RBX,
    pointer=x86.UC_X86_REG_RDI, word=x86.UC_X86_REG_RSI, counter=x86.UC_X86_REG_RCX,
    registers=tuple(getattr(x86, f"UC_X86_REG_R{name}") for name in
                    "AX BX CX DX SI DI BP SP 8 9 10 11 12 13 14 15".split()),
    nop=bytes.fromhex("0f1f00"),            # nop dword ptr [rax]
    load=bytes.fromhex("488b07"),           # mov rax, [rdi]
    store=bytes.fromhex("488937"),          # mov [rdi], rsi
    copy=bytes.fromhex("4889c3"),           # mov rbx, rax
    sync=bytes.fromhex("0f1f00"),           # nop dword ptr [rax]
    call=bytes.fromhex("e83b000000"),       # call text+0x40, at text
    call_again=bytes.fromhex("e830000000"),  # call text+0x40, at text+0xb
    seven=bytes.fromhex("b807000000 c3 9090"),  # mov eax, 7; ret; nop; nop
    nine=bytes.fromhex("b809000000 c3 9090"),   # mov eax, 9; ret; nop; nop
    first=5,
)
ARM64 = Isa(
    "arm64", uc_const.UC_ARCH_ARM64, uc_const.UC_MODE_ARM, 0xFFFF_8000_8000_0000,
    default_tlb_error=uc_const.UC_ERR_OK, sees_own_store=False,
    pc=a64.UC_ARM64_REG_PC, sp=a64.UC_ARM64_REG_SP,
    value=a64.UC_ARM64_REG_X0, kept=a64.UC_ARM64_REG_X5,
    pointer=a64.UC_ARM64_REG_X2, word=a64.UC_ARM64_REG_X1, counter=a64.UC_ARM64_REG_X3,
    registers=tuple(getattr(a64, f"UC_ARM64_REG_X{n}") for n in range(31)),
    nop=bytes.fromhex("1f2003d5"),          # nop
    load=bytes.fromhex("400040f9"),         # ldr x0, [x2]
    store=bytes.fromhex("410000f9"),        # str x1, [x2]
    copy=bytes.fromhex("e50300aa"),         # mov x5, x0
    sync=bytes.fromhex("df3f03d5"),         # isb
    call=bytes.fromhex("10000094"),         # bl text+0x40, at text
    call_again=bytes.fromhex("0d000094"),   # bl text+0x40, at text+0xc
    seven=bytes.fromhex("e00080d2 c0035fd6"),  # mov x0, #7; ret
    nine=bytes.fromhex("200180d2 c0035fd6"),   # mov x0, #9; ret
    first=4,
)
RISCV64 = Isa(
    "riscv64", uc_const.UC_ARCH_RISCV, uc_const.UC_MODE_RISCV64, 0xFFFF_FFFF_8000_0000,
    default_tlb_error=uc_const.UC_ERR_OK, sees_own_store=False,
    pc=rv.UC_RISCV_REG_PC, sp=rv.UC_RISCV_REG_SP,
    value=rv.UC_RISCV_REG_A0, kept=rv.UC_RISCV_REG_A5,
    pointer=rv.UC_RISCV_REG_A2, word=rv.UC_RISCV_REG_A1, counter=rv.UC_RISCV_REG_A3,
    registers=tuple(getattr(rv, f"UC_RISCV_REG_X{n}") for n in range(1, 32)),
    nop=bytes.fromhex("13000000"),          # nop
    load=bytes.fromhex("03350600"),         # ld a0, 0(a2)
    store=bytes.fromhex("2330b600"),        # sd a1, 0(a2)
    copy=bytes.fromhex("93070500"),         # mv a5, a0
    sync=bytes.fromhex("0f100000"),         # fence.i
    call=bytes.fromhex("ef000004"),         # jal ra, text+0x40, at text
    call_again=bytes.fromhex("ef004003"),   # jal ra, text+0x40, at text+0xc
    seven=bytes.fromhex("13057000 67800000"),  # li a0, 7; ret
    nine=bytes.fromhex("13059000 67800000"),   # li a0, 9; ret
    first=4,
)
# fmt: on
ISAS = {isa.name: isa for isa in (X86_64, ARM64, RISCV64)}
every_isa = pytest.mark.parametrize("isa", ISAS.values(), ids=str)


def engine(isa: Isa, code: bytes, *, model: int | None = None, virtual_tlb: bool = True) -> unicorn.Uc:
    """An instance with `code` at the start of text, `seven` at ROUTINE, and a page of data."""
    uc = unicorn.Uc(isa.arch, isa.mode)
    if model is not None:
        uc.ctl_set_cpu_model(model)
    if virtual_tlb:
        uc.ctl_set_tlb_mode(uc_const.UC_TLB_VIRTUAL)
    uc.mem_map(isa.text, PAGE)
    uc.mem_map(isa.data, PAGE, uc_const.UC_PROT_READ | uc_const.UC_PROT_WRITE)
    uc.mem_write(isa.text + ROUTINE, isa.seven)
    uc.mem_write(isa.text, code)
    uc.reg_write(isa.sp, isa.data + 0x800)
    uc.reg_write(isa.pointer, isa.data + 0x100)
    return uc


def run(uc: unicorn.Uc, isa: Isa, code: bytes, count: int = 0) -> int:
    """Run text from its start to the end of `code`; return the error number."""
    try:
        uc.emu_start(isa.text, isa.text + len(code), count=count)
    except UcError as error:
        return error.errno
    return uc_const.UC_ERR_OK


def issued(uc: unicorn.Uc, isa: Isa) -> list[int]:
    """The list that a new CODE hook fills with offsets into text."""
    offsets: list[int] = []
    uc.hook_add(uc_const.UC_HOOK_CODE, lambda _uc, pc, _size, _: offsets.append(pc - isa.text))
    return offsets


def block_sizes(uc: unicorn.Uc) -> list[int]:
    """The list that a new BLOCK hook fills with sizes in bytes."""
    sizes: list[int] = []
    uc.hook_add(uc_const.UC_HOOK_BLOCK, lambda _uc, _pc, size, _: sizes.append(size))
    return sizes


def accesses(uc: unicorn.Uc) -> list[str]:
    """The list that a new MEM hook fills: R8 is a read of eight bytes, W1 a write of one."""
    events: list[str] = []

    def on_access(_uc: unicorn.Uc, kind: int, _at: int, size: int, _value: int, _: object) -> None:
        events.append(f"{'W' if kind == uc_const.UC_MEM_WRITE else 'R'}{size}")

    uc.hook_add(uc_const.UC_HOOK_MEM_READ | uc_const.UC_HOOK_MEM_WRITE, on_access)
    return events


INVALID = "INVALID"


def traps(uc: unicorn.Uc) -> list[int | str]:
    """The list that new hooks fill with INTR numbers, and INVALID for an invalid instruction."""
    seen: list[int | str] = []

    def on_intr(uc: unicorn.Uc, number: int, _: object) -> None:
        seen.append(number)
        uc.emu_stop()

    def on_invalid(_uc: unicorn.Uc, _: object) -> bool:
        seen.append(INVALID)
        return False

    uc.hook_add(uc_const.UC_HOOK_INTR, on_intr)
    uc.hook_add(uc_const.UC_HOOK_INSN_INVALID, on_invalid)
    return seen


TRAPS = [  # isa, assembly, bytes, INTR number or INVALID, pc relative to the instruction
    ("x86_64", "int3", "cc", 3, 1),
    ("x86_64", "ud2", "0f0b", INVALID, 0),
    ("x86_64", "vmovups ymm0, [rdi]", "c5fc1007", INVALID, 0),
    ("x86_64", "serialize", "0f01e8", INVALID, 0),
    ("arm64", "brk #0", "000020d4", 7, 0),
    ("arm64", "svc #0", "010000d4", 2, 4),
    ("arm64", "udf #0", "00000000", 1, 0),
    ("arm64", "ldadd x0, x1, [x2]", "410020f8", 1, 0),
    ("arm64", "cas x0, x1, [x2]", "417ca0c8", 1, 0),
    ("arm64", "swp x0, x1, [x2]", "418020f8", 1, 0),
    ("arm64", "retaa", "ff0b5fd6", 1, 0),
    ("arm64", "paciza x0", "e023c1da", 1, 0),
    ("riscv64", "ebreak", "73001000", INVALID, 0),
    ("riscv64", "c.ebreak", "0290", INVALID, 0),
    ("riscv64", "ecall", "73000000", 8, 4),
    ("riscv64", ".4byte 0xffffffff", "ffffffff", 2, 4),
    ("riscv64", ".2byte 0x8002", "0280", 2, 4),  # two bytes long, and yet pc + 4
    ("riscv64", "c.unimp", "0000", 2, 4),  # likewise
    ("riscv64", "rdtime a0", "732510c0", 2, 4),
]
NOPS = [  # isa, assembly, bytes
    ("x86_64", "endbr64", "f30f1efa"),
    ("x86_64", "incsspq rax", "f3480faee8"),
    ("arm64", "bti c", "5f2403d5"),
    ("arm64", "bti j", "9f2403d5"),
    ("arm64", "paciasp", "3f2303d5"),
    ("arm64", "autiasp", "bf2303d5"),
    ("arm64", "xpaclri", "ff2003d5"),
]
