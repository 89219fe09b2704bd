"""The commands that errors suggest: each leaves the file that it is given as it was."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tramplab
from support.vmlinux.programs import program
from support.vmlinux.small_kernels import x86

ROOT = Path(tramplab.__file__).parent
#: Programs that change nothing of what a user gives to them: those of this package, and those that read no file by its name.
OURS = ("tramplab", "make", "python", "pip", "git", "dask", "apt-get")
#: Such as a suggestion names: what is given, and what is made.
FILE, OUT = "FILE", "OUT"
_COMMAND = re.compile(r"`([a-z][a-z0-9-]* [^`]*)`")


def texts(tree: ast.AST) -> list[str]:
    """All that a module may print: its strings, but for docstrings, with what is filled in left out."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documents = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, documented)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(v.value if isinstance(v, ast.Constant) else "..." for v in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in documents:
            found.append(node.value)
    return found


SUGGESTED = sorted(
    {
        command
        for path in ROOT.rglob("*.py")
        for text in texts(ast.parse(path.read_text("utf-8")))
        for command in _COMMAND.findall(text)
        if command.split()[0] not in OURS
    }
)
#: What each of their programs is given here: a file that it takes.
GIVEN = {"strip": x86(), "objcopy": program("x86_64", [(".text", b"\xc3" * 99), (".debug_info", b"x" * 99)])}


def test_suggestions_are_found():
    programs = {command.split()[0] for command in SUGGESTED}
    assert programs == {"strip", "objcopy", "dpkg-deb", "rpm2cpio"}


@pytest.mark.parametrize("command", SUGGESTED)
def test_a_suggested_command_says_what_it_is_given_and_where_its_result_goes(command):
    """Without a second name objcopy and strip write over the first. What cpio unpacks has the names in the archive."""
    words = command.split()
    assert words.count(FILE) == 1
    assert words.count(OUT) == 1 or words[-2:] == ["cpio", "-id"]


def package(folder: Path) -> bytes:
    """A Debian package with a kernel image in it."""
    (folder / "made/DEBIAN").mkdir(parents=True)
    (folder / "made/DEBIAN/control").write_text(
        "Package: linux-image\nVersion: 1\nArchitecture: all\nMaintainer: who <who@where>\nDescription: kernel\n", "utf-8"
    )
    (folder / "made/boot").mkdir()
    (folder / "made/boot/vmlinuz").write_bytes(x86())
    subprocess.run(["dpkg-deb", "--build", folder / "made", folder / "made.deb"], check=True, capture_output=True)
    return (folder / "made.deb").read_bytes()


@pytest.mark.parametrize("command", SUGGESTED)
def test_a_suggested_command_leaves_its_file_as_it_was(command, tmp_path):
    program_of = command.split()[0]
    if not all(shutil.which(part.split()[0]) for part in command.split("|")):
        pytest.skip(f"there is no {program_of}")
    if program_of not in ("dpkg-deb", *GIVEN):
        pytest.skip(f"there is no file for {program_of}")
    content = package(tmp_path) if program_of == "dpkg-deb" else GIVEN[program_of]
    (tmp_path / "run").mkdir()
    given = tmp_path / "run" / FILE
    given.write_bytes(content)
    subprocess.run(command, shell=True, cwd=given.parent, check=True, capture_output=True, timeout=120)
    assert given.read_bytes() == content
    made = given.parent / OUT
    assert made.exists() and ((made / "boot/vmlinuz").read_bytes() == x86() if made.is_dir() else made.stat().st_size > 0)
