"""Keystone as a host may have it: not at all, or with numbers that it reads in another base."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tramplab.build import assemble
from tramplab.isa import Isa

TESTS = Path(__file__).resolve().parents[2]
has_keystone = pytest.mark.skipif(importlib.util.find_spec("keystone") is None, reason="Keystone has no wheel for this host")
HIDDEN = "TRAMPLAB_KEYSTONE_HIDDEN"
outer = pytest.mark.skipif(HIDDEN in os.environ, reason="this is the inner run")


def hexadecimal(isa: Isa, monkeypatch) -> None:
    """Have it read numbers without a prefix in base 16, as an engine does after any option was set."""
    import keystone

    fresh = keystone.Ks(*(getattr(keystone, name) for name in isa.keystone))
    if isa.name == "x86_64":
        fresh.syntax = keystone.KS_OPT_SYNTAX_INTEL
        assert bytes(fresh.asm("sub rsp, 10")[0])[-1] == 0x10, "numbers are decimal now: nothing need be done about them"
    monkeypatch.setattr(assemble, "_engine", lambda *_: fresh)


def check_without(folder: Path, file: str, chosen: str) -> None:
    """What is chosen of a file in tests/ passes where the import of Keystone fails; everything is assembled by clang then."""
    package = folder / "keystone"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('hidden for a test')\n", "utf-8")
    path = os.pathsep.join([str(folder), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, HIDDEN: "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS / file), "-k", chosen]
    done = subprocess.run(command, cwd=TESTS.parent, env=env, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout[-2000:]
    probe = "from tramplab.build import assemble; print(assemble.keystone)"
    seen = subprocess.run([sys.executable, "-c", probe], env=env, capture_output=True, encoding="utf-8")
    assert seen.stdout == "None\n"
