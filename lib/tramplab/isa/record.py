"""An instruction set as the lab needs it, one frozen record per ISA: data, not behaviour."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..base.errors import TramplabError

#: How a struct of two words is passed for which too few registers are left: on the stack, and later arguments may still have
#: registers; on the stack, and so is all that follows; the first word in a register, the second on the stack.
WHOLE, LAST, SPLIT = "whole", "last", "split"


@dataclass(frozen=True)
class Branch:
    """An encodable branch: its bytes, and how far it reaches.

    encode(pc, target) -> bytes; reach is the inclusive range of (target - pc) in bytes; size in bytes.
    """

    encode: Callable[[int, int], bytes]
    reach: tuple[int, int]
    size: int

    def reaches(self, pc: int, target: int) -> bool:
        """Can a branch at pc go to target?"""
        return self.reach[0] <= target - pc <= self.reach[1]


@dataclass(frozen=True)
class ReturnStack:
    """What pushes to and pops from an ISA's return stack.

    link_registers: registers whose write by a jump pushes (empty where call and ret say so themselves).
    source: the document the rule is from.
    """

    link_registers: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class UserSpace:
    """How the guest runs as a process.

    shift: bytes that every address is lower than in the kernel, so that all distances stay.
    cflags: instead of the kernel's.
    bases: as Isa.bases, with other registers where a process cannot use a kernel's own.
    differs: what runs differently, for the reader; one instruction always replaces one.
    """

    shift: int
    cflags: tuple[str, ...]
    bases: tuple[tuple[str, str], ...]
    differs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Isa:
    """One instruction set.

    Register names are the ones used in calling-convention documents; `registers` is every general register including
    the stack pointer. `link` is None where a call pushes its return address. Sizes are bytes.
    """

    name: str
    registers: tuple[str, ...]
    pc: str
    sp: str
    fp: str
    link: str | None
    args: tuple[str, ...]
    returns: tuple[str, ...]
    struct_return: str  # carries the address of a struct too large for the return registers
    struct_spills: str  # WHOLE, LAST or SPLIT
    callee_saved: tuple[str, ...]
    scratch: tuple[str, ...]  # caller-saved and no argument
    fixed: tuple[str, ...]  # belongs to the kernel or the platform; never random in a test
    call_pushes: int  # bytes a call instruction pushes
    nops: dict[int, bytes]  # one instruction that does nothing, by size
    bases: tuple[tuple[str, str], ...]  # registers that hold the current "task", or this CPU's data, "pcpu"
    breakpoints: tuple[bytes, ...]  # instructions that trap, the one of a kprobe first
    call: Branch  # what a patch site or trampoline uses for a near call
    max_insn: int
    return_stack: ReturnStack
    # where the lab kernel lies
    text_base: int
    module_base: int
    far_base: int
    # how compilers and engines call this ISA
    triple: str
    cflags: tuple[str, ...]
    asm_prologue: str  # directives that make clang read a snippet as Keystone does
    unicorn: tuple[str, str, str | None]  # names of the UC_ARCH_*, UC_MODE_* and CPU model constants
    unicorn_prefix: str  # module of register constants, e.g. "x86"
    capstone: tuple[str, str] = ("", "")
    keystone: tuple[str, str] | None = None
    user_space: UserSpace | None = None
    page: int = 4096  # text and data of an image share no page of this size

    def __post_init__(self) -> None:
        groups = set(self.args) | set(self.callee_saved) | set(self.scratch) | set(self.fixed) | set(self.returns)
        unknown = groups - set(self.registers)
        if unknown:
            raise TramplabError(f"{self.name}: {sorted(unknown)} are in a role but not in the list of registers")

    @functools.cached_property
    def in_user_space(self) -> Isa:
        """This ISA for a lab kernel that is built as part of a process; always the same record."""
        user = self.user_space
        if user is None:
            raise TramplabError(f"the lab kernel cannot be built as part of a process on {self.name}.")
        places = {name: getattr(self, name) - user.shift for name in ("text_base", "module_base", "far_base")}
        # a kernel's pages are up to 64 KiB, and mmap knows nothing smaller
        cflags = (*user.cflags, "-DCONFIG_LAB_USER=1")
        return replace(self, cflags=cflags, bases=user.bases, user_space=None, page=1 << 16, **places)
