"""What differs between ISAs in the slow path: one module each, all with the same names.

config(features)            how the guest is built for a release
site(entry, compiled, features)   the parts of a patch site
boot(site, features, symbols)     steps that turn what the compiler left into an idle site
enable(sites, ...) / disable(...) steps that make sites call a target, or nothing
reaches(site, target, symbols)    can this site call that target by itself?
patch_call(address, target)       steps that repoint a call inside a trampoline
"""

from __future__ import annotations

from types import ModuleType

from ...isa import Isa
from . import arm64, riscv64, x86_64

_MODULES = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}


def of(isa: Isa) -> ModuleType:
    """The module of an ISA."""
    return _MODULES[isa.name]
