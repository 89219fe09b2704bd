"""What differs between ISAs in the slow path: one module each, all with the same names.

config(features)            how the guest is built for a release
site(entry, compiled, features)   the parts of a patch site
boot(site, features, symbols)     steps that turn what the compiler left into an idle site
reaches(site, target, ...)        can this site call that target by itself?
call_bytes, nop_bytes(site, ...)  what a site holds while it calls a target, or nothing
write_sites(changes, features, image)   steps that write such bytes to many sites
write_literal(site, ops, why)     the step that changes a callsite's ops, where there is one
patch_call(address, target, why, image)  steps that repoint a call inside a trampoline
stops_machine(features)           does an update happen with all other CPUs stopped?
update_code(steps, features)      an update's steps with what goes around them
"""

from __future__ import annotations

from types import ModuleType

from ...isa import Isa
from . import arm64, riscv64, x86_64

_MODULES = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}


def of(isa: Isa) -> ModuleType:
    """The module of an ISA."""
    return _MODULES[isa.name]
