"""The code of a trampoline with a given save set, from what is to be saved to the bytes at an address."""

from __future__ import annotations

from dataclasses import dataclass

from ...build.assemble import assemble
from ...emulate.image import Image
from ...ftrace.releases import Features
from ...isa import Isa
from ..arguments import live_registers
from . import arm64, riscv64, x86_64
from .plan import SavePlan
from .protocol import SavingArch

_MODULES: dict[str, SavingArch] = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}

#: Save set -> what it is.
SETS = {
    "live": "the registers that carry the function's arguments, known from its prototype",
    "clobbered": "every register that C may clobber",
    "ip": "every register that can carry an argument; shows ip, which may be changed",
    "ip+sp": "the same; shows ip, sp and the return address, which may be changed",
    "own-args": "what ftrace_caller saves for an ftrace_regs",
    "own-regs": "what ftrace_regs_caller saves, all general registers",
}


@dataclass(frozen=True)
class Code:
    """A trampoline in parts: assembly up to the load of the ops' address, and from behind the call on."""

    before: str
    after: str


def plan(image: Image, name: str, functions: tuple[str, ...]) -> SavePlan:
    """The plan of a trampoline with this save set for these functions; for `live`, the registers that any of them takes."""
    module = _MODULES[image.isa.name]
    if name == "live":
        taken = {r for f in functions for r in live_registers(image.isa, image.prototypes[f])}
        return SavePlan(keeps=tuple(r for r in module.ARGUMENTS if r in taken))
    return {
        "clobbered": SavePlan(keeps=module.CLOBBERED),
        "ip": SavePlan(keeps=module.ARGUMENTS, ip=True),
        "ip+sp": SavePlan(keeps=module.ARGUMENTS, ip=True, sp=True, stack=True),
        "own-args": SavePlan(keeps=module.ARGS, ip=True, sp=True, whole=True),
        "own-regs": SavePlan(keeps=module.REGS, ip=True, sp=True, whole=True, full=True),
    }[name]


def code(image: Image, features: Features, name: str, functions: tuple[str, ...]) -> Code:
    """The assembly of a trampoline, in parts; nothing in it depends on where it lies."""
    module, wanted = _MODULES[image.isa.name], plan(image, name, functions)
    return Code(module.before(image, features, wanted), module.after(image, features, wanted))


def linked(isa: Isa, parts: Code, address: int, ops: int, func: int) -> bytes:
    """The bytes of a trampoline that lies at an address, passes these ops on and calls this function."""
    module = _MODULES[isa.name]
    code_bytes = assemble(isa, parts.before)
    code_bytes += module.load_ops(address + len(code_bytes), ops)
    code_bytes += module.CALL.encode(address + len(code_bytes), func)
    return code_bytes + assemble(isa, parts.after)
