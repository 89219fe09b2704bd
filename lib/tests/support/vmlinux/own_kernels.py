"""Small kernels as somebody might build them, made from Debian's Linux source and kept in the cache.

`make own` runs this, and makes those that are not there. Each is the kernel's tinyconfig with what tracing needs, what starts one
process, and what tells it from the others. Of each its vmlinux and its boot image are kept.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tramplab.base import cache
from tramplab.base.errors import TramplabError
from tramplab.base.starting import start

#: The package that has the source, and where it lies.
PACKAGE = "linux-source-6.12"
SOURCE = Path(f"/usr/src/{PACKAGE}.tar.xz")
#: Kinds of files that a kernel leaves.
KINDS = ("vmlinux", "boot")
#: In every kernel.
_BASE = """
64BIT SMP MMU CC_OPTIMIZE_FOR_PERFORMANCE PRINTK BUG MULTIUSER FUTEX POSIX_TIMERS BINFMT_ELF BLK_DEV_INITRD RD_GZIP PROC_FS
PROC_SYSCTL SYSFS TMPFS SHMEM DEVTMPFS TTY NET UNIX MODULES MODULE_UNLOAD KALLSYMS KALLSYMS_ALL JUMP_LABEL STACKPROTECTOR
STACKPROTECTOR_STRONG PERF_EVENTS BPF_SYSCALL BPF_JIT BPF_EVENTS FTRACE FUNCTION_TRACER DYNAMIC_FTRACE FUNCTION_GRAPH_TRACER KPROBES
KPROBE_EVENTS STACK_TRACER DEBUG_KERNEL DEBUG_FS DEBUG_INFO_DWARF5 DEBUG_INFO_BTF
"""
#: By ISA: make's name of it, its compiler's prefix, its boot image, and what only its kernels have.
_ISAS = {
    "x86_64": ("x86_64", "x86_64-linux-gnu-", "arch/x86/boot/bzImage", "FPROBE SERIAL_8250 SERIAL_8250_CONSOLE CPU_MITIGATIONS"),
    "arm64": ("arm64", "aarch64-linux-gnu-", "arch/arm64/boot/Image", "SERIAL_AMBA_PL011 SERIAL_AMBA_PL011_CONSOLE"),
    "riscv64": (
        "riscv",
        "riscv64-linux-gnu-",
        "arch/riscv/boot/Image",
        "ARCH_RV64I RISCV_SBI FPU SERIAL_8250 SERIAL_8250_CONSOLE SERIAL_OF_PLATFORM",
    ),
}
_X86 = "MITIGATION_RETPOLINE MITIGATION_RETHUNK MITIGATION_SRSO"


@dataclass(frozen=True)
class Own:
    """A kernel: its ISA, options that it has beyond those of all, some with `=n` behind them, and whether clang compiles it."""

    isa: str
    options: str = ""
    clang: bool = False


KERNELS = {
    "arm64-cfi": Own("arm64", "PREEMPT CFI_CLANG RANDOMIZE_BASE", clang=True),
    "x86_64-clang": Own(
        "x86_64", f"{_X86} X86_KERNEL_IBT CFI_CLANG FINEIBT MITIGATION_CALL_DEPTH_TRACKING UNWINDER_ORC PREEMPT", clang=True
    ),
    "arm64-scs": Own("arm64", "SHADOW_CALL_STACK RANDOMIZE_BASE"),
    "arm64-fixed": Own("arm64", "RELOCATABLE=n RANDOMIZE_BASE=n JUMP_LABEL=n"),
    "x86_64-fp": Own("x86_64", f"{_X86} UNWINDER_FRAME_POINTER X86_KERNEL_IBT=n JUMP_LABEL=n MODVERSIONS MODULE_FORCE_LOAD=n"),
    "riscv64-norvc": Own("riscv64", "NONPORTABLE PORTABLE=n EFI=n RISCV_ISA_C=n"),
    "riscv64": Own("riscv64", "RISCV_ISA_C"),
    "x86_64": Own("x86_64", f"{_X86} X86_KERNEL_IBT UNWINDER_ORC MITIGATION_CALL_DEPTH_TRACKING RELOCATABLE RANDOMIZE_BASE"),
    "riscv64-clang": Own("riscv64", "CFI_CLANG SHADOW_CALL_STACK", clang=True),
}
#: The same build on every day and machine.
_FIXED = {"KBUILD_BUILD_TIMESTAMP": "2026-01-01", "KBUILD_BUILD_USER": "tramplab", "KBUILD_BUILD_HOST": "tramplab"}


def place(name: str, kind: str) -> Path | None:
    """A kernel's file of a kind in the cache, verified; None where it is not there."""
    at = _kept(name, kind)
    return cache.publish(_not_there, at) if cache.place(at).is_file() else None


def make(name: str, source: Path, build: Path) -> None:
    """Build a kernel in a folder and keep its files. Raises TramplabError where that cannot be done."""
    own = KERNELS[name]
    arch, prefix, boot, theirs = _ISAS[own.isa]
    tools = ["LLVM=-19"] if own.clang else [f"CROSS_COMPILE={prefix}"]
    command = ["make", "-s", "-C", str(source), f"O={build}", f"ARCH={arch}", *tools, f"-j{(os.cpu_count() or 1) + 1}"]
    build.mkdir(parents=True, exist_ok=True)
    wanted = {option.partition("=")[0]: option.partition("=")[2] or "y" for option in f"{_BASE} {theirs} {own.options}".split()}
    (build / "fragment").write_text("".join(f"CONFIG_{name}={value}\n" for name, value in wanted.items()), "utf-8")
    _run([*command, "tinyconfig"])
    merge = source / "scripts/kconfig/merge_config.sh"
    _run([str(merge), "-m", "-O", str(build), str(build / ".config"), str(build / "fragment")])
    _run([*command, "olddefconfig"])
    config = (build / ".config").read_text("utf-8").splitlines()
    missed = [name for name, value in wanted.items() if (f"CONFIG_{name}=y" in config) != (value == "y")]
    if missed:
        raise TramplabError(f"{name} is not built as wanted ({', '.join(missed)}): see {build / '.config'}.")
    _run([*command, "vmlinux", boot.rpartition("/")[2]])
    for kind, file in zip(KINDS, ("vmlinux", boot), strict=True):
        cache.publish(functools.partial(_copied, build / file), _kept(name, kind))


def main() -> int:
    """Make those that are named, or all; returns the exit status."""
    p = argparse.ArgumentParser(description="Build small kernels and keep them in the cache.")
    p.add_argument("name", nargs="*", metavar="NAME", help=f"of {', '.join(KERNELS)}; none: all")
    p.add_argument("--folder", type=Path, required=True, help="where the source is unpacked, and the kernels are built")
    args = p.parse_args()
    source = args.folder / PACKAGE
    if not source.is_dir():
        if not SOURCE.is_file():
            raise TramplabError(f"there is no {SOURCE}: install Debian's package {PACKAGE}.")
        args.folder.mkdir(parents=True, exist_ok=True)
        _run(["tar", "-xf", str(SOURCE), "-C", str(args.folder)])
    for name in args.name or KERNELS:
        if not all(place(name, kind) for kind in KINDS):
            print(f"== building {name}", flush=True)
            make(name, source, args.folder / name)
    return 0


def _run(command: list[str]) -> None:
    done = subprocess.run(command, env=os.environ | _FIXED, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        raise TramplabError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout)[-300:]}")


def _kept(name: str, kind: str) -> str:
    return f"own-kernels/{name}.{kind}"


def _copied(file: Path, folder: Path) -> Path:
    return Path(shutil.copy(file, folder / "image"))


def _not_there(folder: Path) -> Path:
    raise TramplabError("it is not in the cache, or damaged: run `make own`.")


if __name__ == "__main__":
    sys.exit(start(lambda: main))
