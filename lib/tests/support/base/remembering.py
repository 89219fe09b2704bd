"""A compiler that remembers what it has made, for tests of when it is asked, of which many ask it for the same.

The same words on the same files give the same bytes, which is shown where it is not remembered (build/test_toolchain.py): so what
is asked for once more is what came of it before. Which files it has read the compiler tells itself, so that this does not rest on
what the package takes them to be. All processes of a run remember the same.
"""

import hashlib
import os
import pickle
import re
import uuid
from pathlib import Path

import pytest

from tramplab.base.paths import write_whole
from tramplab.build import assemble, toolchain
from tramplab.build.toolchain import run_tool

#: The environment variable of the folder that conftest.py makes for a run.
_FOLDER = "TRAMPLAB_ROWS"
#: The folder of a build, which has another name each time.
_BUILDING = re.compile(r"/[^=]*/\.building-\w+")


def _remembering(*arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What run_tool() does, each thing once, if it writes a file."""
    if cwd is None or "-o" not in arguments:
        return run_tool(*arguments, cwd=cwd, env=env)
    out = cwd / arguments[arguments.index("-o") + 1]
    words = repr([_BUILDING.sub("", word) for word in arguments])
    known = Path(os.environ[_FOLDER], "compiled", hashlib.sha256(words.encode()).hexdigest())
    for one in known.glob("[!.]*"):
        read, content = pickle.loads(one.read_bytes())
        if all(_sha256(cwd / path) == then for path, then in read.items()):
            out.write_bytes(content)
            return ""
    compiles = "-c" in arguments and not any(word.endswith(".s") for word in arguments)
    said = run_tool(*arguments, *(("-MD", "-MF", "read") if compiles else ()), cwd=cwd, env=env)
    files = {cwd / word for word in arguments} - {out} | (_told(cwd / "read") if compiles else set())
    relative = {path.relative_to(cwd) if path.is_relative_to(cwd) else path for path in files if path.is_file()}
    known.mkdir(parents=True, exist_ok=True)
    write_whole(known / uuid.uuid4().hex, pickle.dumps(({path: _sha256(cwd / path) for path in relative}, out.read_bytes())))
    return said


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _told(rule: Path) -> set[Path]:
    """What a source depends on, as a rule for make has it: spaces within names have a backslash before them."""
    _, _, names = rule.read_text("utf-8").replace("\\\n", " ").partition(": ")
    return {rule.parent / name.replace("\\ ", " ") for name in re.split(r"(?<!\\)\s+", names.strip())}


def remember(patch: pytest.MonkeyPatch) -> None:
    """Have whatever is compiled or assembled by this process done so; the emulator's hooks are not, which are made in a moment."""
    for module in (toolchain, assemble):
        patch.setattr(module, "run_tool", _remembering)
