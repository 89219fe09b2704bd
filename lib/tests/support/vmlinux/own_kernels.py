"""Small kernels as somebody might build them, made from Debian's Linux source and kept in the cache; `make own` runs this."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from tramplab.base.starting import start
from tramplab.kbuild import build, command, fragments, source

#: The package that has the source.
PACKAGE = "linux-source-6.12"
#: Kinds of files that a kernel leaves.
KINDS = ("vmlinux", "image")


@dataclass(frozen=True)
class Own:
    """A kernel: its ISA, options on top of the base, some with `=n` behind them, and the version of clang that compiles it."""

    isa: str
    options: str = ""
    clang: str = ""

    @property
    def wanted(self) -> build.Wanted:
        """What is to be built."""
        own = {option.partition("=")[0]: option.partition("=")[2] or "y" for option in self.options.split()}
        return build.Wanted(self.isa, fragments.options(self.isa) | own, self.clang)


KERNELS = {
    "arm64-cfi": Own("arm64", "PREEMPT CFI_CLANG RANDOMIZE_BASE", clang="19"),
    "x86_64-clang": Own("x86_64", "CFI_CLANG FINEIBT MITIGATION_CALL_DEPTH_TRACKING PREEMPT", clang="19"),
    "arm64-scs": Own("arm64", "SHADOW_CALL_STACK RANDOMIZE_BASE"),
    "arm64-fixed": Own("arm64", "RELOCATABLE=n RANDOMIZE_BASE=n JUMP_LABEL=n"),
    "x86_64-fp": Own(
        "x86_64",
        "UNWINDER_FRAME_POINTER UNWINDER_ORC=n X86_KERNEL_IBT=n JUMP_LABEL=n MODVERSIONS MODULE_FORCE_LOAD=n",
    ),
    "riscv64-norvc": Own("riscv64", "NONPORTABLE PORTABLE=n EFI=n RISCV_ISA_C=n"),
    "riscv64": Own("riscv64"),
    "x86_64": Own("x86_64", "MITIGATION_CALL_DEPTH_TRACKING RELOCATABLE RANDOMIZE_BASE"),
    "riscv64-clang": Own("riscv64", "CFI_CLANG SHADOW_CALL_STACK", clang="19"),
}


def place(name: str, kind: str) -> Path | None:
    """A kernel's file of a kind in the cache; None where it is not there."""
    wanted = KERNELS[name].wanted
    found = (k for k in build.every() if (k.isa, k.options) == (wanted.isa, wanted.options) and not k.patches)
    return next((getattr(k, kind) for k in found if ("clang" in k.compiler) == bool(wanted.clang)), None)


def main() -> int:
    """Make those that are named, or all; returns the exit status."""
    p = argparse.ArgumentParser(description="Build small kernels and keep them in the cache.")
    p.add_argument("name", nargs="*", metavar="NAME", help=f"of {', '.join(KERNELS)}; none: all")
    wanted = [KERNELS[name].wanted for name in p.parse_args().name or KERNELS]
    for (kernel,) in build.kernels(source.found(PACKAGE), [[]], wanted, command.tick):
        print(f"{kernel.isa}: {kernel.image}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(start(lambda: main))
