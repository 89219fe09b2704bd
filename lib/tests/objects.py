"""Compiled parts of guests that differ in one file: of the dozen objects of such a guest all but one were compiled before.

Most of what a mutant takes is its compilation. An object is the same wherever its sources lie, which test_toolchain.py holds.
"""

import hashlib
import shutil
from pathlib import Path

from tramplab.build import toolchain


class Objects:
    """Stands for toolchain.run_tool: compiles what it was not asked for before, and copies the rest."""

    def __init__(self, folder: Path, guest: Path) -> None:
        self.folder, self.guest, self.run = folder, guest, toolchain.run_tool

    def __call__(self, *arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
        if "-c" not in arguments:
            return self.run(*arguments, cwd=cwd, env=env)
        made = Path(arguments[-1])
        kept = self.folder / self._name(arguments, Path(cwd))
        if not kept.exists():
            self.run(*arguments, cwd=cwd, env=env)
            shutil.copy(made, kept)
        shutil.copy(kept, made)
        return ""

    def _name(self, arguments: tuple[str, ...], build: Path) -> str:
        """By the command, wherever its files lie, its source, and every file that any source may include."""
        command = " ".join(arguments).replace(str(build), "build").replace(str(self.guest), "guest")
        source = Path(arguments[arguments.index("-c") + 1])
        included = [p for folder in (build, self.guest) for p in sorted(folder.rglob("*")) if p.suffix in (".h", ".inc")]
        h = hashlib.sha256(command.encode())
        for path in (source, *included):
            h.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return f"{h.hexdigest()}.o"
