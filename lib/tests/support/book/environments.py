"""Environments in which only a package and what it requires are installed, and notebooks that are executed there."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from support import ROOT

#: The package of the book.
BOOK = "tramplab_book"
#: Executes the notebook of its first argument in the folder where it runs, and writes it with outputs as its second.
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=600, shutdown_kernel="immediate").execute()
nbformat.write(notebook, sys.argv[2])
"""


def linked(folder: Path, extra: str) -> Path:
    """An environment with the checkout's packages and what they require with an extra, as links to what is installed here: what the
    packages forget to require is not there. Returns its Python. It takes a second, and no network."""
    target = _environment(folder, [*_project("")["dependencies"], *_project(BOOK)["dependencies"], *_project(BOOK, extra)])
    (target / "checkout.pth").write_text(f"{ROOT / 'lib'}\n", "utf-8")
    return folder / "bin" / "python"


def unpacked(folder: Path, wheels: Sequence[Path]) -> Path:
    """The same with the packages of these wheels, as pip would install them, and what they require without extras."""
    asked = [line for wheel in wheels for line in _project(BOOK if wheel.name.startswith(BOOK) else "")["dependencies"]]
    target = _environment(folder, asked)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    return folder / "bin" / "python"


def _project(at: str, extra: str = "") -> Any:
    """What the pyproject.toml of one of the packages says; of an extra what it asks for."""
    project = tomllib.loads((ROOT / "lib" / at / "pyproject.toml").read_text("utf-8"))["project"]
    return project["optional-dependencies"][extra] if extra else project


def _environment(folder: Path, asked: Iterable[str]) -> Path:
    """One with links to what is asked for; returns the folder of its packages."""
    venv.create(folder, with_pip=False, symlinks=True)
    (target,) = folder.glob("lib/python3*/site-packages")
    for name in sorted(_closure(asked) - {"tramplab"}):
        found = importlib.metadata.distribution(name)
        tops = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}
        for top in tops:
            link = target / top
            if not link.is_symlink():  # a namespace that several share
                link.symlink_to(found.locate_file(top))
    return target


def _closure(asked: Iterable[str]) -> set[str]:
    """Names of all distributions that are required, also by those that are."""
    todo = [Requirement(line) for line in asked]
    found: dict[str, set[str]] = {}  # name -> its extras that were followed
    while todo:
        requirement = todo.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name, extras = re.sub(r"[-_.]+", "-", requirement.name).lower(), {"", *requirement.extras}
        new = extras - found.get(name, set())
        found.setdefault(name, set()).update(new)
        for line in importlib.metadata.requires(name) or () if new else ():
            more = Requirement(line)
            if more.marker is None or any(more.marker.evaluate({"extra": one}) for one in new):
                more.marker = None
                todo.append(more)
    return set(found)


def installed(clone: Path, command: str) -> Path:
    """An environment that a command makes in a clone of the checkout; returns its Python. It takes a minute and a package index."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    environment = outside() | {"PIP_NO_COMPILE": "1"}
    done = subprocess.run(command, shell=True, cwd=clone, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return clone / ".venv" / "bin" / "python"


def execute(python: Path, notebook: Path, folder: Path, **settings: str) -> Path:
    """Execute a notebook in an empty folder with another Python; returns the one with outputs, beside the folder."""
    folder.mkdir()
    done = folder.with_suffix(".ipynb")
    home = {"HOME": str(folder), "IPYTHONDIR": str(folder.with_suffix(".ipython")), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    command, environment = [python, "-c", EXECUTE, notebook, done], outside() | home | settings
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    assert run.returncode == 0, run.stderr[-4000:]
    return done


def outside() -> dict[str, str]:
    """The environment without what would lead a Python to what is installed here."""
    ours = ("PYTHON", "JUPYTER", "VIRTUAL_ENV", "TRAMPLAB_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "PATH": os.pathsep.join(p for p in os.get_exec_path() if Path(p) != Path(sys.prefix, "bin"))}
