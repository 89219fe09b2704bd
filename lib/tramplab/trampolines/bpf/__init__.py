"""BPF trampolines: for one function and a list of programs, code made at run time that the patch site calls directly.

The kernel's JITs make them for fentry, fexit and fmod_ret programs and attach them as direct calls. Everything a trampoline
saves follows from the function's signature, which the kernel has from BTF and the lab from DWARF.
"""

from __future__ import annotations

from .request import Bpf
from .trampolines import BpfTrampolines

__all__ = ["Bpf", "BpfTrampolines"]
