"""The set-up and the rules of the checkout: imports, requirements, make targets, and the documents."""

import ast
import functools
import graphlib
import os
import re
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support import ROOT
from support.plugins import again
from tramplab_book import studies
from tramplab_book.publish.cite import pages

LAB, BOOK, TESTS = (ROOT / "lib" / name for name in ("tramplab", "tramplab_book", "tests"))

# -- imports: what each part may import, besides itself and what everything rests on

BASE = {"base"}
ANALYSES = ("estimate", "anatomy", "unwind", "races", "contention", "sparsity", "returns")
BELOW = {
    **{part: set() for part in BASE},
    "isa": set(),
    "build": {"isa"},
    "emulate": {"isa", "build"},
    "ftrace": {"isa", "build", "emulate"},
    "trampolines": {"isa", "build", "emulate", "ftrace"},
    "lab": {"isa", "build", "emulate", "ftrace", "trampolines"},
    "estimate": {"isa", "build", "emulate", "ftrace", "trampolines", "lab"},
    "anatomy": {"isa", "build", "emulate", "ftrace", "trampolines", "lab", "estimate"},
    "races": {"isa", "build", "emulate", "ftrace", "trampolines", "lab"},
    "contention": {"isa", "build", "emulate", "ftrace", "trampolines", "lab"},
    "sparsity": {"isa", "build", "emulate", "ftrace", "trampolines", "lab", "estimate", "unwind"},
    "unwind": {"isa", "build", "emulate", "ftrace", "trampolines", "lab", "estimate"},
    "returns": {"isa", "build", "emulate", "ftrace", "trampolines", "lab", "unwind", "sparsity"},
    "native": {"isa", "build", "emulate", "ftrace", "trampolines", "lab", "estimate"},
    "grid": {"isa", "build", "emulate", "ftrace", "trampolines", "lab", "estimate"},
    "vmlinux": {"isa", "build", "emulate", "ftrace", "trampolines", "lab", "estimate", "anatomy", "races"}
    | {"unwind", "sparsity", "returns"},
    "boot": {"isa", "build", "emulate", "ftrace", "trampolines", "lab", "vmlinux"},
    "kbuild": {"races", "vmlinux", "boot"},
}
EVERYTHING = set(BELOW) | {"__init__", "cli"}
BELOW |= {"cli": EVERYTHING, "__main__": EVERYTHING, "__init__": EVERYTHING - {"cli"}}
#: The same of the package of the book, which the lab knows nothing of.
BELOW |= {
    "places": set(),
    "publish": {"places"},
    "studies": set(BELOW["boot"]) | {*ANALYSES, "native", "boot", "kbuild", "places", "publish"},
}
BELOW["commands"] = {*BELOW["studies"], "studies"}

#: The same of the rooms of publish.
PUBLISH = {
    "table": set(),
    "cite": set(),
    "findings": {"cite"},
    "figures": {"table", "cite", "findings"},
    "claims": {"table", "cite", "figures", "findings"},
    "stepper": set(),
}

# One module each; charts are made in one folder, and data frames anywhere in the package of the book.
ENGINES = {
    "concurrent": "tramplab/base/processes/jobs.py",
    "multiprocessing": "tramplab/base/processes/jobs.py",
    "distributed": "tramplab/base/processes/cluster.py",
    "tqdm": "tramplab/base/processes/progress.py",
    "unicorn": "tramplab/emulate/engine.py",
    "capstone": "tramplab/emulate/decode.py",
    "keystone": "tramplab/build/assemble.py",
    "myst_parser": "tramplab_book/publish/cite/pages.py",
    "altair": "tramplab_book/publish/figures/chart",
    "pandas": "tramplab_book",
}


def imports(source: str, package: tuple[str, ...]) -> set[str]:
    """Dotted names a module imports, anywhere in it. `package` is what its relative imports are relative to."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            base += node.module.split(".") if node.module else []
            names |= {".".join([*base, alias.name]) for alias in node.names}
    return names


def forbidden(names: set[str], part: str) -> set[str]:
    """Those of the names that lie above `part`, or beside it."""
    parts = {name: [*name.split("."), "__init__"][1] for name in names if name.split(".")[0] in (LAB.name, BOOK.name)}
    known = {name: target if target in {*EVERYTHING, *BELOW} else "__init__" for name, target in parts.items()}
    return {name for name, target in known.items() if target not in BELOW[part] | BASE | {part}}


@functools.cache
def modules() -> list[tuple[Path, str, set[str]]]:
    """Every module of the packages, but what builds a wheel: where in lib/, of which part, and what it imports."""
    found = []
    for path in sorted(p for package in (LAB, BOOK) for p in package.rglob("*.py") if p.name != "setup.py"):
        inside = path.relative_to(LAB.parent)
        found.append((inside, inside.parts[1].removesuffix(".py"), imports(path.read_text("utf-8"), inside.parts[:-1])))
    return found


def test_the_lab_does_without_the_book():
    """Neither its modules nor the tests of its rooms import the other package; their files read its tables by no other way."""
    lab = {str(path): names for path, _, names in modules() if path.parts[0] == LAB.name}
    rooms = {path.name for path in LAB.iterdir()} & {path.name for path in TESTS.iterdir()}
    for path in (p for room in sorted(rooms) for p in sorted((TESTS / room).rglob("*.py"))):
        lab[str(path.relative_to(TESTS))] = imports(path.read_text("utf-8"), ())
    assert len(rooms) >= 17 and [path for path, names in lab.items() if any(n.split(".")[0] == BOOK.name for n in names)] == []


def test_imports_point_downwards():
    assert {str(path): bad for path, part, names in modules() if (bad := forbidden(names, part))} == {}


def test_imports_within_publish_do_too():
    found = {path: names for path, part, names in modules() if part == "publish"}
    for path, names in found.items():
        room = path.parts[2].removesuffix(".py")
        used = {n.split(".")[2] for n in names if n.startswith("tramplab_book.publish.")} & PUBLISH.keys()
        assert room not in PUBLISH or used <= PUBLISH[room] | {room}, path
    assert {path.parts[2].removesuffix(".py") for path in found} >= PUBLISH.keys()


def graph(found: list[tuple[Path, str, set[str]]]) -> dict[str, set[str]]:
    """Module -> the modules of the packages that it imports, also for type checkers only."""

    def dotted(path: Path) -> str:
        return ".".join(path.with_suffix("").parts).removesuffix(".__init__")

    known = {dotted(path) for path, _, _ in found}
    return {
        dotted(path): {n if n in known else n.rpartition(".")[0] for n in names if n.split(".")[0] in (LAB.name, BOOK.name)}
        for path, _, names in found
    }


def circle(imported: dict[str, set[str]]) -> list[str]:
    """Modules that import each other all around; none where there is no such circle."""
    try:
        list(graphlib.TopologicalSorter(imported).static_order())
    except graphlib.CycleError as e:
        return e.args[1]
    return []


def test_no_modules_import_each_other():
    assert circle(graph(modules())) == []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) != []


def test_each_engine_is_imported_in_one_place():
    found = {
        engine: [path for path, _, names in modules() if engine in {n.split(".")[0] for n in names}]
        for engine in ENGINES
    }
    assert all(found.values())
    assert [str(p) for engine in ENGINES for p in found[engine] if not p.is_relative_to(ENGINES[engine])] == []


def test_an_import_that_points_upwards_is_seen():
    """Anywhere in a module, of a part or of the package, and relative ones too; one that points downwards is allowed."""
    source = """
import os
from tramplab.base.errors import TramplabError
from ..isa import x
from . import y
def f():
    import tramplab_book.studies
    from tramplab import Kernel
    from .. import cli
"""
    found = forbidden(imports(source, ("tramplab", "emulate")), "emulate")
    assert found == {"tramplab_book.studies", "tramplab.Kernel", "tramplab.cli"}


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
