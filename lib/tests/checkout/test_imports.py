"""Which modules import which: as CONTRIBUTING.md draws the rooms, in no circle, and each engine in one place."""

import ast
import functools
import graphlib
from pathlib import Path

from support import ROOT

LAB, BOOK, TESTS = (ROOT / "lib" / name for name in ("tramplab", "tramplab_book", "tests"))

# What each part may import, besides itself and what everything rests on.

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
    "kbuild": {"build", "races", "vmlinux", "boot"},
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

#: Modules of a room that others may import without a reason.
MOST_DOORS = 15

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


def doors(imported: dict[str, set[str]]) -> dict[str, set[str]]:
    """Room, a folder of a package -> its modules that others import."""
    found: dict[str, set[str]] = {}
    for module, names in imported.items():
        for name in (name for name in names if name.split(".")[:2] != module.split(".")[:2]):
            found.setdefault("/".join(name.split(".")[:2]), set()).add(name)
    return {room: names for room, names in found.items() if (LAB.parent / room).is_dir()}


def test_a_room_has_few_doors_or_says_why():
    found = doors(graph(modules()))
    assert len(found) > 18 and found["tramplab/lab"] > {"tramplab.lab.kernel", "tramplab.lab.run"}
    many = [room for room, names in found.items() if len(names) > MOST_DOORS]
    said = {room: ast.get_docstring(ast.parse((LAB.parent / room / "__init__.py").read_text("utf-8"))) or "" for room in many}
    assert {room: sorted(found[room]) for room in many if "doors because" not in " ".join(said[room].split())} == {}


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
