"""Guest sources to ELF images, by the clang and lld inside the `ziglang` wheel.

An image is named by what went into it (sources, flags, compiler version), so what is kept of it never goes stale. So are the
objects it is linked from, which most images have in common with others.

`python -m ziglang clang` is clang itself, without the caching wrapper of `zig cc`: it takes clang's own flags
(-march, -fpatchable-function-entry=N,M) and keeps no state of its own.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base.cache import made, publish
from ..base.errors import TramplabError
from ..base.paths import told_apart
from ..isa import Isa
from .dwarf import asm_offsets
from .included import Included
from .types import reader

GUEST = Path(__file__).resolve().parent.parent / "guest"
#: What each program without a libc is linked with, and may include.
PROCESS = Path(__file__).resolve().parent / "process"

#: Seconds after which the package's own guest is looked at again. To boot a kernel takes one or two thousandths of one, of which
#: that would be a quarter; and nobody changes a source and boots the next kernel in less than this.
_AGAIN = 0.1
_FULL = ", as where a disk is full: set TRAMPLAB_CACHE to a folder that has room"
#: Signal that ended a tool -> its likely cause; a linker writes its output through memory.
_ENDS = {signal.SIGBUS: _FULL, signal.SIGXFSZ: _FULL, signal.SIGKILL: ", as where memory is short: run the same command again"}

_COMMON = (
    "-O2 -g -gdwarf-4 -std=gnu11 -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables -fno-pic -fno-common"
    " -fno-builtin -fno-strict-aliasing -fno-delete-null-pointer-checks -Wall -Wextra -Werror -Wno-unused-parameter"
).split()
_LEAVES = ("-momit-leaf-frame-pointer",)
_LINKED = "-static --build-id=none --no-relax -z noexecstack".split()
# three quarters of riscv64's symbols are the assembler's own, and to read them takes longer than to read the others
_GUEST_LINKED = (*_LINKED, "--discard-locals")


@dataclass(frozen=True)
class GuestConfig:
    """The options with which a guest is compiled.

    defines: preprocessor names that are set (CONFIG_...).
    site_flags: how the traced functions get their patch sites.
    frame_pointer: compile everything with frame pointers.
    core_flags: how the kernel's own C is protected (core/*.c).
    """

    defines: tuple[str, ...]
    site_flags: tuple[str, ...]
    frame_pointer: bool
    core_flags: tuple[str, ...] = ()


@functools.cache
def zig() -> str:
    """The path of the compiler binary; raises TramplabError with what to install when the wheel is missing."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        raise TramplabError("no compiler: the guest is built by the PyPI wheel `ziglang`; run `pip install ziglang==0.17.0`.")
    folder = Path(next(iter(spec.submodule_search_locations)))
    for name in ("zig", "zig.exe"):
        if (folder / name).is_file():
            return str(folder / name)
    raise TramplabError(f"the `ziglang` wheel in {folder} has no zig binary; reinstall it with `pip install -I ziglang==0.17.0`.")


def run_tool(*arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run one tool of the compiler wheel, with these variables added to its environment; its complaint is the error."""
    environment = {**os.environ, "LC_ALL": "C", **(env or {})}
    command = [zig(), *arguments]
    try:
        done = subprocess.run(
            command, check=False, cwd=cwd, env=environment, capture_output=True, encoding="utf-8", errors="replace"
        )
    except OSError as e:
        raise TramplabError(f"the compiler does not start ({command[0]}: {e.strerror}).") from None
    if done.returncode:
        lines = done.stderr.splitlines()
        first = next((line for line in lines if re.search(r"(^|: )(fatal )?error: ", line)), None)
        first = first or (_ended(done.returncode) if done.returncode < 0 else next(iter(lines), "no message"))
        raise TramplabError(f"the guest does not build ({arguments[0]}): {first.strip().rstrip('.')}.")
    return done.stdout


def _ended(status: int) -> str:
    """The sentence on a tool that a signal ended, before it could complain."""
    number = signal.Signals(-status)
    return f"it was ended by {number.name}{_ENDS.get(number, '')}"


def source_files(isa: Isa, guest: Path = GUEST) -> list[Path]:
    """All files of the guest that can influence an image of this ISA, in a fixed order."""
    return [guest / name for name, *_ in _seen(isa, guest)]


_Seen = tuple[tuple[str, int, int, int], ...]
_last: dict[str, tuple[float, _Seen]] = {}  # ISA -> when the package's own guest was looked at, and what was seen


def _lately(isa: Isa, guest: Path) -> _Seen:
    """What _seen() says, of the package's own guest at most _AGAIN seconds ago."""
    if guest != GUEST:
        return _seen(isa, guest)
    at = time.monotonic()
    if isa.name not in _last or at - _last[isa.name][0] > _AGAIN:
        _last[isa.name] = at, _seen(isa, guest)
    return _last[isa.name][1]


def _seen(isa: Isa, guest: Path) -> _Seen:
    """The source files by their paths in the guest's folder, each with stat data that change when it is replaced. Asked for
    whenever a kernel is booted, so it does as little as will do."""
    found = {name: os.stat(f"{guest}/{name}") for name in ("functions.c", "link.ld")}
    for folder in ("include", "core", "consumers", isa.name):
        handle = os.open(f"{guest}/{folder}", os.O_RDONLY)
        try:
            names = [name for name in os.listdir(handle) if name.endswith((".c", ".h", ".S", ".inc"))]
            found |= {f"{folder}/{name}": os.stat(name, dir_fd=handle) for name in names}
        finally:
            os.close(handle)
    return tuple((name, *told_apart(seen)) for name, seen in sorted(found.items()))


def fingerprint(isa: Isa, config: GuestConfig, guest: Path = GUEST) -> str:
    """The name of the image these sources, flags and compiler give: 24 hex digits. Raises TramplabError for a folder
    without them."""
    flags = (isa.cflags, isa.triple, _bases(isa), config, _COMMON, _LEAVES, _GUEST_LINKED)
    try:
        return _name(repr((isa.name, flags, version())), str(guest), _lately(isa, guest))
    except OSError as e:
        raise TramplabError(
            f"no guest can be built of {guest} ({e.filename}: {e.strerror}): a guest's folder is a copy of {GUEST} with changes."
        ) from None


@functools.lru_cache(maxsize=1000)
def _name(how: str, guest: str, files: tuple[tuple[str, int, int, int], ...]) -> str:
    """The digest of files with this stat data; files whose stat data changed are read again."""
    h = hashlib.sha256(how.encode())
    for name, *seen in files:
        h.update(name.encode() + b"\0" + _sha256(f"{guest}/{name}", *seen))
    return h.hexdigest()[:24]


@functools.lru_cache(maxsize=10_000)
def _sha256(path: str, *seen: int) -> bytes:
    """The digest of a file with this stat data; read again when the stat data changes."""
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).digest()


def build(isa: Isa, config: GuestConfig, guest: Path = GUEST) -> Path:
    """Compile and link the lab kernel for one ISA and configuration; returns the ELF file (cached)."""
    return publish(lambda folder: _build_in(folder, isa, config, guest), f"{isa.name}-{fingerprint(isa, config, guest)}.elf")


def program(isa: Isa, sources: Path, base: int) -> Path:
    """A static program without a libc, from PROCESS, a folder's *.c and its <isa>.S, if any, and what they include; linked at base
    (cached)."""
    units = [*sorted(f for f in sources.iterdir() if f.suffix == ".c" or f.name == f"{isa.name}.S"), PROCESS / f"{isa.name}.S"]
    flags = [f"--target={isa.triple}", *_COMMON, *isa.cflags, "-fpie", f"-fdebug-compilation-dir={sources.name}"]
    places = [f"-I{PROCESS}", *(f"-ffile-prefix-map={folder}={folder.name}" for folder in (sources, PROCESS))]
    link = (*_LINKED, f"--image-base={base:#x}")
    h = hashlib.sha256(repr((flags, link, version())).encode())
    included = Included((PROCESS,))
    for unit in units:
        h.update("".join(f"{path.name} {sha256} " for path, sha256 in included.of(unit).items()).encode())

    def make(folder: Path) -> Path:
        objects = [f"{unit.parent.name}-{unit.name}.o" for unit in units]
        for unit, name in zip(units, objects, strict=True):
            run_tool("clang", *flags, *places, "-c", str(unit), "-o", name, cwd=folder)
        run_tool("ld.lld", *link, *objects, "-o", "program.elf", cwd=folder)
        return folder / "program.elf"

    path = publish(make, f"{isa.name}-{h.hexdigest()[:24]}.program")
    with contextlib.suppress(OSError):  # the error of starting it says so
        path.chmod(path.stat().st_mode | stat.S_IXUSR)  # a cache that was copied may have lost it
    return path


def module(isa: Isa, source: Path, layout: str, more: Sequence[str] = ()) -> bytes:
    """A kernel module of one C file and the headers beside it, with this as "layout.h": an object for the kernel's own loader
    (cached). more: flags of the compiler."""
    own = ("-g0", "-fno-omit-frame-pointer", *_LEAVES, "-I.", f"-ffile-prefix-map={source.parent}=.")
    flags = [f"--target={isa.triple}", *_COMMON, *isa.cflags, *more, *own]
    read = {path.name: sha256 for path, sha256 in Included(()).of(source).items()}

    def make(folder: Path) -> Path:
        (folder / "layout.h").write_text(layout, "utf-8")
        run_tool("clang", *flags, "-c", str(source), "-o", "module.ko", cwd=folder)
        return folder / "module.ko"

    return made(make, f"{isa.name}-{_digest((flags[:-1], version(), read, layout))[:24]}.ko")


@functools.cache
def version() -> str:
    """The compiler's own words on its version."""
    return run_tool("clang", "--version").splitlines()[0]


def _digest(of: object) -> str:
    return hashlib.sha256(repr(of).encode()).hexdigest()


def _bases(isa: Isa) -> list[str]:
    places = {"LAB_TEXT_BASE": isa.text_base, "LAB_FAR_BASE": isa.far_base, "LAB_PAGE": isa.page}
    return [f"--defsym={name}={value:#x}" for name, value in places.items()]


def _offsets(isa: Isa, core: Path) -> bytes:
    """The header with the assembly's constants: offsets as the C compiler has decided them, kept for the next image with the same
    object. The object is linked for this, as its debug info has relocations."""

    def make(own: Path) -> Path:
        shutil.copy(core, own / core.name)
        run_tool("ld.lld", "--unresolved-symbols=ignore-all", "-e", "0", core.name, "-o", "offsets.elf", cwd=own)
        (own / "offsets.h").write_text(asm_offsets(own / "offsets.elf"), "utf-8")
        return own / "offsets.h"

    return made(make, f"{isa.name}-{_digest((core.read_bytes(), reader(), version()))[:24]}.h")


def _build_in(folder: Path, isa: Isa, config: GuestConfig, guest: Path) -> Path:
    pointer = "-fno-omit-frame-pointer" if config.frame_pointer else "-fomit-frame-pointer"
    code = [f"--target={isa.triple}", *_COMMON, *isa.cflags, pointer]
    folders = (guest / "include", guest / isa.name, folder)
    text = [*(f"-D{d}=1" for d in config.defines), *(f"-I{where}" for where in folders)]
    # debug info must not know where the sources lie: the same tree gives the same image everywhere
    paths = [f"-ffile-prefix-map={guest}=guest", f"-ffile-prefix-map={folder}=build", "-fdebug-compilation-dir=guest"]
    included = Included(folders)
    objects = []

    def compile_(source: Path, name: str, flags: Iterable[str] = ()) -> None:
        # what decides an object's bytes: flags, compiler, and what it may read and what is set of that, wherever all this lies
        read = {str(p).replace(str(folder), "build").replace(str(guest), "guest"): of for p, of in included.of(source).items()}
        decides = (code, flags, version(), included.mentioned(source, config.defines), read)

        def make(own: Path) -> Path:
            run_tool("clang", *code, *flags, *text, *paths, "-c", str(source), "-o", str(own / name), cwd=folder)
            return own / name

        shutil.copy(publish(make, f"{isa.name}-{_digest(decides)[:24]}.o"), folder / name)
        objects.append(name)

    # by their names link.ld tells what is called, which counts as `callback`, from what calls it
    # a callback that calls nothing makes no frame, so that it costs the same as its twins in assembly
    for folder_name, prefix, flags in (("core", "core", config.core_flags), ("consumers", "consumer", _LEAVES)):
        for source in sorted((guest / folder_name).glob("*.c")):
            compile_(source, f"{prefix}_{source.stem}.o", flags)
    compile_(guest / "functions.c", "functions.o", config.site_flags)
    (folder / "asm-offsets.h").write_bytes(_offsets(isa, folder / "core_ftrace.o"))
    for source in sorted((guest / isa.name).glob("*.S")):
        compile_(source, f"asm_{source.stem}.o")
    script = ("-T", str(guest / "link.ld"))
    run_tool("ld.lld", *_GUEST_LINKED, *_bases(isa), *script, *objects, "-o", "lab.elf", cwd=folder)
    return folder / "lab.elf"
