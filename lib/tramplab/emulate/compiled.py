"""Hooks in C, which the emulator calls without going through Python: compiled by the compiler wheel on the reader's machine."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import sys
from pathlib import Path

from ..base.cache import publish, say
from ..base.errors import TramplabError
from ..build.toolchain import run_tool

#: Debug info would name the folder, and what is kept may be read by another machine of this kind.
_FLAGS = ("-O2", "-g0", "-shared", "-fPIC", "-nostdlib", "-fno-sanitize=undefined", "-mcpu=baseline")


def library(source: Path) -> ctypes.CDLL | None:
    """The hooks of a file, and of the headers beside it; None where they cannot be built, of which a line is said, or where
    $TRAMPLAB_METER is "python"."""
    return None if os.environ.get("TRAMPLAB_METER") == "python" else _library(source)


@functools.cache
def _library(source: Path) -> ctypes.CDLL | None:
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    files = [source, *sorted(source.parent.glob("*.h"))]
    made_of = hashlib.sha256(b"".join(f.read_bytes() for f in files) + repr((_FLAGS, platform.machine())).encode())
    name = f"{source.stem}-{made_of.hexdigest()[:16]}{suffix}"

    def make(folder: Path) -> Path:
        library = folder / name
        caches = {f"ZIG_{which}_CACHE_DIR": str(folder / "zig") for which in ("LOCAL", "GLOBAL")}  # it may have no other
        run_tool("cc", *_FLAGS, str(source), "-o", str(library), cwd=folder, env=caches)
        return library

    try:
        return ctypes.CDLL(str(publish(make, name)))
    except (TramplabError, OSError) as e:
        say(f"{source.stem} is done in Python, which takes longer: {e}")
        return None
