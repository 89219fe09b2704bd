"""Code in C, compiled by the compiler wheel on the reader's machine: the emulator's hooks, the race search, the model of a core."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import platform
import sys
from pathlib import Path

from ..base.cache import publish
from ..base.errors import TramplabError
from ..build.toolchain import run_tool

#: Debug info would name the folder, and what is kept may be read by another machine of this kind.
_FLAGS = ("-O2", "-g0", "-shared", "-fPIC", "-nostdlib", "-fno-sanitize=undefined", "-mcpu=baseline")


@functools.cache
def library(source: Path) -> ctypes.CDLL:
    """The library of a C file and the headers beside it. Raises TramplabError where it cannot be built, kept or loaded."""
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    files = [source, *sorted(source.parent.glob("*.h"))]
    made_of = hashlib.sha256(b"".join(f.read_bytes() for f in files) + repr((_FLAGS, platform.machine())).encode())
    name = f"{source.stem}-{made_of.hexdigest()[:16]}{suffix}"

    def make(folder: Path) -> Path:
        library = folder / name
        caches = {f"ZIG_{which}_CACHE_DIR": str(folder / "zig") for which in ("LOCAL", "GLOBAL")}  # it may have no other
        run_tool("cc", *_FLAGS, str(source), "-o", str(library), cwd=folder, env=caches)
        return library

    kept = publish(make, name)
    try:
        return ctypes.CDLL(str(kept))
    except OSError as e:
        remedy = "set TRAMPLAB_CACHE to a folder whose files may be run"
        raise TramplabError(f"{source.stem} cannot be loaded ({e}): {remedy}.") from None
