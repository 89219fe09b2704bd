"""Hooks in C, which the emulator calls without going through Python: compiled by the compiler wheel on the reader's machine."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import sys
from pathlib import Path

from ..build.toolchain import run_tool
from ..cache import publish
from ..errors import TramplabError


def library(source: Path) -> ctypes.CDLL | None:
    """The hooks of a file, and of the headers beside it; None where they cannot be built or $TRAMPLAB_METER is "python"."""
    return None if os.environ.get("TRAMPLAB_METER") == "python" else _library(source)


@functools.cache
def _library(source: Path) -> ctypes.CDLL | None:
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    files = [source, *sorted(source.parent.glob("*.h"))]
    name = f"{source.stem}-{hashlib.sha256(b''.join(f.read_bytes() for f in files)).hexdigest()[:16]}{suffix}"

    def make(folder: Path) -> Path:
        out = folder / name
        flags = ["-O2", "-g0", "-shared", "-fPIC", "-nostdlib", "-fno-sanitize=undefined"]  # debug info would name the folder
        run_tool(
            "cc", *flags, str(source), "-o", str(out), cwd=folder, env={"ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}
        )
        return out

    try:
        return ctypes.CDLL(str(publish(make, name)))
    except (TramplabError, OSError):
        return None
