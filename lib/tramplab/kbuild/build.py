"""A kernel built from its source: its tinyconfig and fragments on top, by tuxmake, kept in the cache by all that it is made from.

Nothing of the day, the user or the machine is in it: the same source, patches, fragments and compiler give the same bytes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..base import cache
from ..base.entries import Entry, IsaName
from ..base.errors import TramplabError
from . import source
from .fragments import missed, text


@dataclass(frozen=True)
class Arch:
    """How kernels of an ISA are built.

    name: tuxmake's name of it.
    compiler: GCC's program, from its package of Debian.
    image: the target that is booted, in its folder.
    steps: how many lines make prints for a kernel of the fragments "base", about.
    """

    name: str
    compiler: str
    package: str
    image: str
    steps: int


ARCHES: dict[IsaName, Arch] = {
    "x86_64": Arch("x86_64", "x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu", "arch/x86/boot/bzImage", 1700),
    "arm64": Arch("arm64", "aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", "arch/arm64/boot/Image", 1700),
    "riscv64": Arch("riscv", "riscv64-linux-gnu-gcc", "gcc-riscv64-linux-gnu", "arch/riscv/boot/Image", 1700),
}
#: What every build runs, and the package of each.
_PROGRAMS = {name: name for name in ("make", "flex", "bison", "bc", "pahole", "perl", "tar", "git")} | {"xz": "xz-utils"}
#: The same on every day and machine.
_FIXED = ("KBUILD_BUILD_VERSION=1", "KBUILD_BUILD_TIMESTAMP=2026-01-01", "KBUILD_BUILD_USER=tramplab", "KBUILD_BUILD_HOST=tramplab")
#: No folder of this machine, for what is compiled and what is assembled.
_UNPLACED = ("KCFLAGS=-ffile-prefix-map={}=.", "KAFLAGS=-ffile-prefix-map={}=.")
_TUXMAKE = (sys.executable, "-m", "tuxmake")
#: A line of make for one file, and one that says what went wrong.
_STEP = re.compile(r"  [A-Z][A-Z0-9_]*(?: \[M\])? +\S")
_WRONG = re.compile(r"\berror: |undefined (?:reference|symbol)|No such file or directory|No space left|: not found|\*\*\* ", re.I)


@dataclass(frozen=True)
class Wanted:
    """A kernel to be built. options: those of its fragments. clang: its version, "19", or "" for GCC."""

    isa: IsaName
    options: Mapping[str, str]
    clang: str = ""


class Built(Entry, frozen=True):
    """A kernel that was built, and what from. digest: of the source. without: options of "base" that this kernel does not have."""

    isa: IsaName
    release: str
    digest: str
    patches: tuple[str, ...]
    options: dict[str, str]
    without: tuple[str, ...]
    compiler: str
    key: str
    seconds: int

    @property
    def vmlinux(self) -> Path:
        """The ELF file, with symbols and DWARF."""
        return cache.place(f"built/{self.key}.vmlinux")

    @property
    def image(self) -> Path:
        """The file that is booted."""
        return cache.place(f"built/{self.key}.image")


#: (kernel, steps done, steps in all, seconds so far) -> nothing: what is told while a kernel is built.
Tick = Callable[[Wanted, int, int, float], None]


def kernels(
    path: Path, series: Sequence[Sequence[Path]], wanted: Sequence[Wanted], tick: Tick = lambda *_: None
) -> Iterator[tuple[Built, ...]]:
    """For each wanted kernel those of one source with these patches, a kernel for each item of series, as soon as they are there;
    from the cache where they were built before. What two have in common is compiled once.

    Raises TramplabError for what is missing, a patch that does not apply, an option that the kernel does not take, and the first
    error of a compiler."""
    compilers = [_compiler(one) for one in wanted]
    digest = source.digest(path)
    with ExitStack() as stack:
        copied = functools.cache(lambda: stack.enter_context(source.copied(path)))
        for one, compiler in zip(wanted, compilers, strict=True):
            made = []
            for patches in series:
                key = _key(one, compiler, digest, patches)
                if kept(key) is None:
                    known = {"digest": digest, "compiler": compiler, "patches": tuple(p.name for p in patches)}
                    with source.patched(copied(), patches) as tree:
                        _build(one, tree, key, tick, **known)
                built = kept(key)
                assert built is not None
                made.append(built)
            yield tuple(made)


def every() -> Iterator[Built]:
    """All kernels in the cache."""
    for path in sorted(cache.place("built").glob("*.json")):
        if built := kept(path.stem):
            yield built


def kept(key: str) -> Built | None:
    """A kernel in the cache; None where it is not, or not whole."""
    said = cache.read(f"built/{key}.json")
    built = msgspec.json.decode(said, type=Built) if said else None
    return built if built and built.vmlinux.is_file() and built.image.is_file() else None


def _compiler(wanted: Wanted) -> str:
    """The first line of what the compiler says of itself; raises TramplabError where it, or what else a build runs, is missing."""
    arch, n = ARCHES[wanted.isa], wanted.clang
    compiler = {f"clang-{n}": f"clang-{n}", f"ld.lld-{n}": f"lld-{n}", f"llvm-ar-{n}": f"llvm-{n}"} if n else {}
    compiler |= {} if n else {arch.compiler: arch.package}
    absent = {program: package for program, package in {**compiler, **_PROGRAMS}.items() if shutil.which(program) is None}
    if absent:
        raise TramplabError(
            f"a kernel for {wanted.isa} is built with {', '.join(absent)}, not there: apt-get install {' '.join(absent.values())}."
        )
    done = subprocess.run([next(iter(compiler)), "--version"], capture_output=True, encoding="utf-8", check=True)
    return done.stdout.partition("\n")[0]


def _key(wanted: Wanted, compiler: str, digest: str, patches: Sequence[Path]) -> str:
    h = hashlib.sha256()
    for part in (digest, wanted.isa, text(wanted.options), compiler, *_FIXED, *_UNPLACED, *(source.digest(p) for p in patches)):
        h.update(part.encode() + b"\0")
    return h.hexdigest()


def _build(wanted: Wanted, tree: Path, key: str, tick: Tick, **known: object) -> None:
    """Build a kernel in a folder of its tree, on what is there from the last one, and keep it."""
    arch, build = ARCHES[wanted.isa], tree / f"build-{wanted.isa}"
    build.mkdir(exist_ok=True)
    start = time.monotonic()
    (build / "fragment.config").write_text(text(wanted.options), "utf-8")
    command = [*_TUXMAKE, "-C", str(tree), "-b", str(build), "-o", str(build / "out")]
    command += ["-a", arch.name, "-k", "tinyconfig", "-K", str(build / "fragment.config"), "-z", "none", "-v", "--fail-fast"]
    command += ["-j", str((os.cpu_count() or 1) + 1), "-I", Path(arch.image).name]
    command += [word for said in (*_FIXED, *_UNPLACED) for word in ("-e", said.format(tree))]
    command += [f"LLVM=-{wanted.clang}"] if wanted.clang else []
    for _ in _make([*command, "config"], wanted):
        pass
    without = missed(build / ".config", tree, wanted.options)
    for done in _make([*command, "kernel", "debugkernel"], wanted):
        tick(wanted, done, arch.steps, time.monotonic() - start)
    kernel = Built(
        isa=wanted.isa,
        release=source.release(tree),
        options=dict(wanted.options),
        without=without,
        key=key,
        seconds=round(time.monotonic() - start),
        **known,  # type: ignore[arg-type]
    )
    for path, file in ((kernel.vmlinux, "vmlinux"), (kernel.image, arch.image)):
        cache.publish(functools.partial(_moved, build / file), f"built/{path.name}")
    cache.keep(f"built/{key}.json", msgspec.json.encode(kernel).decode())


def _moved(file: Path, folder: Path) -> Path:
    return Path(shutil.copy(file, folder / "file"))


def _make(command: list[str], wanted: Wanted) -> Iterator[int]:
    """Run tuxmake; the number of steps whenever there is one more. Raises TramplabError with the first error that it prints."""
    steps, wrong, last = 0, "", ""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env=os.environ | {"LC_ALL": "C"},
        start_new_session=True,
    ) as running:
        try:
            assert running.stdout is not None
            for line in running.stdout:
                if _STEP.match(line):
                    steps += 1
                    yield steps
                elif line.strip():
                    last = line.strip()
                    wrong = wrong or last * bool(_WRONG.search(line))
        finally:
            if running.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
    if running.returncode:
        raise TramplabError(f"the kernel for {wanted.isa} is not built: {(wrong or last).rstrip('.')}.")
