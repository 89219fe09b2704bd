"""The set-up and the rules of the checkout: tests, requirements, make targets, and the documents."""

import os
import re
import subprocess
import sys
import tomllib
from itertools import pairwise

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support import ROOT
from support.plugins import again
from tramplab_book import studies
from tramplab_book.publish.cite import pages

LAB, BOOK, TESTS = (ROOT / "lib" / name for name in ("tramplab", "tramplab_book", "tests"))

# -- tests


def test_no_folder_is_left_out(request):
    """Pytest leaves folders of some names alone, and what is in them fails no more."""
    lib = ROOT / "lib"
    found = (path for room in (TESTS, LAB, BOOK) for path in room.rglob("*"))
    folders = [path.relative_to(lib) for path in found if path.is_dir()]
    shunned = [f for f in folders if f.name != "__pycache__" and any(map(f.match, request.config.getini("norecursedirs")))]
    assert len(folders) > 30 and shunned == []


def test_what_a_second_run_has_is_there():
    sources = {path.stem: path.read_text("utf-8") for path in (ROOT / "lib" / "tests").rglob("test_*.py")}
    assert sources.keys() >= again.FILES


def test_every_study_is_on_a_page():
    """A second run leaves their rows to the comparison of two books."""
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "book").glob("*.md"))
    shown = {name: [f"\n    name: {figure.id}\n" in pages for figure in study.FIGURES] for name, study in studies.every().items()}
    assert len(shown) > 90 and [name for name, figures in shown.items() if not any(figures)] == []


# -- requirements


FILES = {"tramplab": "pyproject.toml", "tramplab-book": "tramplab_book/pyproject.toml"}
LOCKS = {"book": "requirements.txt", "lab": "requirements-lab.txt", "test": "requirements-test.txt"}
PROJECTS = {name: tomllib.loads((ROOT / "lib" / at).read_text("utf-8"))["project"] for name, at in FILES.items()}


def wanted(extra: str) -> list[Requirement]:
    """What the packages ask for with an extra of one of them, those that an extra names included."""
    project = next(p for p in PROJECTS.values() if extra in p["optional-dependencies"])
    found = [Requirement(line) for line in project["optional-dependencies"][extra]]
    others = [more for one in found if one.name in PROJECTS for name in one.extras for more in wanted(name)]
    always = [Requirement(line) for p in PROJECTS.values() for line in p["dependencies"]]
    return [one for one in (*always, *found, *others) if one.name not in PROJECTS]


def locked(lock: str) -> dict[str, str]:
    """Name -> version, of a lock."""
    lines = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / lock).read_text("utf-8"), re.M)
    return {canonicalize_name(name): version for name, version in lines}


def test_every_requirement_has_a_reason():
    """At its line, or as a line before it."""
    texts = ((ROOT / "lib" / at).read_text("utf-8").partition("\ndependencies")[2] for at in FILES.values())
    asked = (re.split(r"\n\[(?:project.scripts|tool)", text)[0] for text in texts)
    lines = [line for text in asked for line in text.splitlines() if not line.startswith(("[", "]"))]
    bare = [line for before, line in pairwise(lines) if re.search("[\"'],?$", line) and not before.startswith("    # ")]
    assert len(lines) > 30 and bare == []


@pytest.mark.parametrize("extra", LOCKS)
def test_a_lock_has_what_the_package_asks_for(extra):
    lock = locked(LOCKS[extra])
    assert [str(one) for one in wanted(extra) if not one.specifier.contains(lock[canonicalize_name(one.name)])] == []
    assert lock.items() <= locked(LOCKS["test"]).items()


# -- make


def test_every_target_is_in_make_help():
    targets = re.search(r"^\.PHONY:(.*)$", (ROOT / "Makefile").read_text("utf-8"), re.M)[1].split()
    help_text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True).stdout
    documented = re.findall(r"^make (\w+)\s+\S", help_text, re.M)
    assert set(targets) - set(documented) == {"browser", "qemu", "system", "spin"}  # steps of `make test`


def installed_with(folder, system, *named) -> str:
    """The Python that make takes where the system's is this script, or is not there, and the path's first is a good one."""
    for name, script in (("system", system), ("python3", "exit 0")):
        if script:
            (folder / name).write_text(f"#!/bin/sh\n{script}\n", "utf-8")
            (folder / name).chmod(0o755)
    command = ["make", "-s", "--eval", "said: ; @echo $(PYTHON)", "said", f"SYSTEM={folder / 'system'}", *named]
    environment = {**os.environ, "MAKEFLAGS": "", "MAKELEVEL": "0", "PATH": f"{folder}:{os.environ['PATH']}"}
    environment.pop("PYTHON", None)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=True)
    return done.stdout.strip().removeprefix(f"{folder}/")


@pytest.mark.parametrize(("hidden", "wanted"), [("ensurepip", "python3"), ("another", "system")])
def test_which_python_is_installed_with(tmp_path, hidden, wanted):
    """The system's, unless it has no venv, as Debian's until python3-venv is installed, or is not there; else that of the path; and
    always the one that is named."""
    (tmp_path / f"{hidden}.py").write_text("raise ImportError\n", "utf-8")
    system = f'PYTHONPATH={tmp_path} exec {sys.executable} "$@"'
    assert installed_with(tmp_path, system) == wanted and installed_with(tmp_path, system, "PYTHON=mine") == "mine"
    (tmp_path / "system").unlink()
    assert installed_with(tmp_path, None) == "python3"


# -- a checkout that cannot be written, as somebody else's


def test_a_target_that_writes_says_at_once_where_it_may_not():
    command = ["make", "-s", "lab", "VENV=/nowhere", "-o", "/nowhere/lab"]
    environment = {**os.environ, "MAKEFLAGS": "", "MAKELEVEL": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 2 and done.stdout == ""
    said, of_make = done.stderr.splitlines()
    assert said == "/nowhere cannot be written: work in a clone of your own." and of_make.startswith("make: ")


# -- documentation


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "data/README.md"])
def test_files_that_are_named_exist(name):
    """Every path in backticks, from the root, the package, its tests or the file's own folder; * stands for anything."""
    text = (ROOT / name).read_text("utf-8")
    spans = [part.content for token in pages.tokens(text) for part in token.children or () if part.type == "code_inline"]
    spans = [n for n in spans if re.fullmatch(r"[\w./*-]+", n)]
    named = [n for n in spans if re.search(r"/[\w*]|\w\.(py|md|yml|csv|txt|S|cff)$", n)]
    folders = (ROOT, LAB, BOOK, TESTS, (ROOT / name).parent)
    made = r"_build/|/e/|book/<|.*index\.html|\.ci/|NAME"
    absent = [n for n in named if not re.match(made, n) and not any(list(f.glob(n.strip("/"))) for f in folders)]
    assert len(named) > 4 and absent == []


def test_examples_of_a_cluster_listen_on_the_loopback_interface():
    """Whoever reaches the port of a scheduler or a worker can run code."""
    for text in (ROOT / "README.md", LAB / "base" / "processes" / "options.py"):
        source = text.read_text("utf-8")
        commands = re.findall(r"(?:\$ \S*|`)(dask (?:scheduler|worker) [^`\n]*)", source)
        assert all("--host 127.0.0.1" in command or "--protocol tls" in command for command in commands), commands
        assert all(address.startswith("127.0.0.1:") for address in re.findall(r"tcp://(\d\S*)", source))
        assert commands or text.name == "options.py"


def test_the_examples_to_imitate_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    examples = {"arm64-call-ops": "releases.yml", "v2": "claims.yml", "guard-is-lost": "findings/variants.yml"}
    for example, file in ((example, f"data/{file}") for example, file in examples.items()):
        assert f"`{example}` in `{file}`" in text and re.search(rf"\b{example}\b", (ROOT / file).read_text("utf-8"))


def test_the_readme_lists_every_room():
    """A line of its table for each folder of the packages."""
    table = re.findall(r"^\| `lib/(\w+/\w+)/` \|", (ROOT / "README.md").read_text("utf-8"), re.M)
    rooms = [path.relative_to(LAB.parent).as_posix() for package in (LAB, BOOK) for path in package.iterdir() if path.is_dir()]
    assert sorted(table) == sorted(room for room in rooms if not room.endswith("__pycache__"))
