"""The ten instructions of a mail of October 2019 (20191022215841.2qsmhd6vxi4mwade@ast-mbp.dhcp.thefacebook.com): a trampoline that
calls a BPF program with the arguments of a function of two, as it stands there. No kernel has it."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import TramplabError
from ...build.assemble import assemble
from ...ftrace.ops import Generated, Registered, Request
from ...ftrace.steps import Free, Step, text
from ...isa.x86_64 import CALL, NOP5
from ..direct import check_direct, registered
from ..guest import Guest
from ..kind import Kind

_ARGUMENTS = ("rdi", "rsi")


@dataclass(frozen=True, eq=False)
class Sketch(Request):
    """The mail's trampoline, as a direct call.

    swapped: the second argument is pushed first, so that the first one is at the lower address, where a program looks for it.
    nop: the one NOP that the mail offers to put in front, for ftrace.
    program: the guest function that it calls with the address of the arguments.
    """

    swapped: bool = False
    nop: bool = False
    program: str = "lab_bpf_count"


class Sketches:
    """The maker of sketches, and of their code, in the module area."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def serves(self, request: Request) -> bool:
        """Is it a sketch?"""
        return isinstance(request, Sketch)

    def check(self, request: Sketch, functions: tuple[str, ...]) -> None:
        """Raise TramplabError but for one function of two arguments on x86-64, of which the mail speaks."""
        check_direct(self._guest, request)
        image = self._guest.image
        if image.isa.name != "x86_64":
            raise TramplabError(f"the ten instructions are x86-64's: there are none for {image.isa.name}.")
        if len(functions) != 1 or len(image.prototypes[functions[0]].parameters) != 2:
            raise TramplabError("the ten instructions are for one function of two arguments: name one.")

    def make(self, request: Sketch, functions: tuple[str, ...]) -> Registered:
        """The registration: a direct call, whose code create() makes."""
        return registered(self._guest, request, functions)

    def create(self, ops: Registered) -> list[Step]:
        """The steps that make the code."""
        size = len(self._code(ops.request, 0))
        ops.direct = self._guest.modules.take(size)
        ops.generated = (Generated(ops.direct, size, "sketched_trampoline"),)
        return [text(ops.direct, self._code(ops.request, ops.direct), "the trampoline of the mail")]

    def free(self, ops: Registered) -> list[Step]:
        """The steps that free the code's room."""
        return [Free(self._guest.modules, made.address, "the trampoline of the mail") for made in ops.generated]

    def _code(self, request: Sketch, base: int) -> bytes:
        image, pushed = self._guest.image, _ARGUMENTS[::-1] if request.swapped else _ARGUMENTS
        before = ["push rbp", "mov rbp, rsp", *(f"push {r}" for r in pushed), "lea rdi, [rbp - 0x10]"]
        after = [*(f"pop {r}" for r in reversed(pushed)), "leave", "ret"]
        code = (NOP5 if request.nop else b"") + assemble(image.isa, "\n".join(before), base)
        program = image.address(request.program)
        code += CALL.encode(base + len(code), program) if base else bytes(CALL.size)
        return code + assemble(image.isa, "\n".join(after), base)


KIND = Kind(Sketches)
