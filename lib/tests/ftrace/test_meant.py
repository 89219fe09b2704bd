"""What a feature's value means is decided in ftrace/: nobody else compares one with a word of data/releases.yml."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import ROOT
from tramplab.ftrace.facts import data
from tramplab.isa import ISAS

PACKAGE = ROOT / "lib" / "tramplab"
FEATURES = {name for section in ("common", *ISAS) for name in data().features(section)}
#: What code calls a table of features.
TABLES = ("features", "usual", "f")
STRINGS = ("startswith", "endswith", "removeprefix", "removesuffix")


def asks(node: ast.expr) -> bool:
    """Is this a feature's value, or that as a string?"""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
        node = node.args[0]
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Constant) or node.slice.value not in FEATURES:
        return False
    table = node.value.func if isinstance(node.value, ast.Call) else node.value
    return (table.attr if isinstance(table, ast.Attribute) else table.id if isinstance(table, ast.Name) else "") in TABLES


def words(node: ast.expr, constants: set[str]) -> bool:
    """Is this a string, a constant that is one, or several of them?"""
    if isinstance(node, (ast.Tuple, ast.Set, ast.List)):
        return any(words(one, constants) for one in node.elts)
    return isinstance(node.value, str) if isinstance(node, ast.Constant) else isinstance(node, ast.Name) and node.id in constants


def decided(source: str) -> Iterator[str]:
    """The expressions in a source that compare a feature's value with a word."""
    tree = ast.parse(source)
    told = [n for n in tree.body if isinstance(n, ast.Assign) and words(n.value, set())]
    constants = {target.id for n in told for target in n.targets if isinstance(target, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(asks, sides)) and any(words(side, constants) for side in sides):
                yield ast.unparse(node)
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in STRINGS and asks(called.value):
            yield ast.unparse(node)


def test_nobody_outside_compares_a_feature_with_a_word():
    """Who needs to know asks by a name of ftrace/meant.py; a table from values to files or words for readers is none of this."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if place.parts[0] != "ftrace" and (said := list(decided(path.read_text("utf-8")))):
            found[str(place)] = said
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        'NONE if str(f["site"]).startswith("detour") else "breakpoint"',
        'kernel.features["kretprobe"] == "own"',
        'releases.features(isa, release, {})["rethook"] != "fgraph"',
        'features["rethook"] in ("freelist", "objpool")',
        '_KEPT = "rethook"\nkept = lambda features: features["kretprobe"] == _KEPT',
    ],
)
def test_such_a_comparison_is_found(source):
    assert list(decided(source))


@pytest.mark.parametrize("source", ['f["kretprobe"] == kept', 'frame["site"] == "entry"', 'part["line"].startswith("x")'])
def test_what_is_no_such_comparison_is_not(source):
    assert not list(decided(source))


def test_the_package_is_where_it_is_looked_for():
    assert Path(PACKAGE / "ftrace" / "meant.py").is_file()
