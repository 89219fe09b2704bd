"""The source of a kernel: where it is, its digest, and a copy of it that is patched and built in."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..base.errors import TramplabError
from ..base.paths import temporary

#: Where Debian's packages of source put their archives.
_DEBIAN = Path("/usr/src")
#: What git names of a hunk that does not apply, and of a patch that cannot be read.
_REFUSED = re.compile(r"^error: (?:patch failed: (?P<file>.+):(?P<line>\d+)|(?P<said>.+))$", re.M)


def found(name: str) -> Path:
    """The tree, archive or Debian package (.deb) of this path, or the archive of an installed package linux-source-...; raises
    TramplabError where there is none."""
    if (path := Path(name)).exists():
        return path
    if (archive := _DEBIAN / f"{name}.tar.xz").is_file():
        return archive
    how = f": install Debian's package {name}, or give a tree, an archive or the package's file" * name.startswith("linux-source-")
    raise TramplabError(f"there is no source {name}{how or ': give a tree, an archive, or a package as linux-source-6.12'}.")


def patch(name: str) -> Path:
    """The file of a patch; raises TramplabError where there is none."""
    if not Path(name).is_file():
        raise TramplabError(f"there is no patch {name}: give a file with a diff, or a mailbox as b4 writes it.")
    return Path(name)


def digest(path: Path) -> str:
    """A SHA-256 of an archive, or of all files of a tree but git's, by path and content."""
    h = hashlib.sha256()
    if path.is_file():
        with path.open("rb") as archive:
            return hashlib.file_digest(archive, "sha256").hexdigest()
    if not (path / "Kconfig").is_file():
        raise TramplabError(f"{path} is no source of a kernel, it has no Kconfig: give the top folder of one.")
    if (path / ".config").exists():
        raise TramplabError(f"{path} has been configured in place, so its files are not the source alone: give a clean tree.")
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(files):
            file = Path(folder, name)
            h.update(file.relative_to(path).as_posix().encode() + b"\0")
            h.update(os.readlink(file).encode() if file.is_symlink() else file.read_bytes())
    return h.hexdigest()


@contextmanager
def copied(path: Path) -> Iterator[Path]:
    """For a `with`: a copy of the source. Raises TramplabError for what cannot be unpacked."""
    with temporary("tramplab-kbuild-") as folder:
        yield _unpacked(path, folder)


@contextmanager
def patched(tree: Path, patches: Sequence[Path]) -> Iterator[Path]:
    """For a `with`: the tree, with these patches applied in order, and taken back behind it. Raises TramplabError for one that does
    not apply."""
    with ExitStack() as stack:
        for patch in patches:
            _apply(patch, tree)
            stack.callback(_apply, patch, tree, "-R")
        yield tree


def release(tree: Path) -> str:
    """The version that a tree's Makefile says, "6.12.117"."""
    text = (tree / "Makefile").read_text("utf-8")
    parts = [re.search(rf"^{name} = (\d+)$", text, re.M) for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    return ".".join(part[1] for part in parts if part)


def _unpacked(path: Path, folder: Path) -> Path:
    """The top of the tree in the folder."""
    if path.is_dir():
        return Path(shutil.copytree(path, folder / "tree", symlinks=True, ignore=shutil.ignore_patterns(".git")))
    archive = path
    if path.suffix == ".deb":
        _run(["dpkg-deb", "-x", str(path), str(folder)], f"{path} is not unpacked")
        inside = sorted(folder.glob("usr/src/linux-source-*.tar.*"))
        if not inside:
            raise TramplabError(f"{path} has no usr/src/linux-source-*.tar.xz: give a package of a kernel's source.")
        archive = inside[0]
    (top := folder / "tree").mkdir()
    _run(["tar", "-xf", str(archive), "-C", str(top), "--strip-components=1"], f"{path} is not unpacked")
    if not (top / "Kconfig").is_file():
        raise TramplabError(f"{path} is no archive of a kernel's source, its top folder has no Kconfig: give one that is.")
    return top


def _apply(patch: Path, tree: Path, *how: str) -> None:
    """Apply a diff, or a mailbox of them."""
    command = ["git", "apply", "--unidiff-zero", *how, str(patch.resolve())]
    alone = os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)}  # a tree in somebody's checkout is not its part
    done = _started(command, cwd=tree, env=alone)
    if done.returncode:
        hunks = [f"{m['file']}, the hunk at line {m['line']}" if m["file"] else m["said"] for m in _REFUSED.finditer(done.stderr)]
        raise TramplabError(f"{patch} does not apply: {hunks[0] if hunks else done.stderr.strip()[-200:]}; nothing is built.")


def _run(command: list[str], what: str) -> None:
    done = _started(command)
    if done.returncode:
        raise TramplabError(f"{what}: {(done.stderr.strip().splitlines() or ['no reason is given'])[0]}.")


def _started(command: list[str], **how: object) -> subprocess.CompletedProcess[str]:
    if shutil.which(command[0]) is None:
        raise TramplabError(f"{command[0]} is not there: install it (Debian: {PACKAGES.get(command[0], command[0])}).")
    return subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False, **how)  # type: ignore[call-overload]


#: Program -> the package of Debian that has it, where their names differ.
PACKAGES = {"xz": "xz-utils", "dpkg-deb": "dpkg"}
