"""Only lab/names.py and native/states.py say what a hook of the lab's is called elsewhere: no other module maps one to another."""

import ast
import importlib
import pkgutil

import pytest

import tramplab
import tramplab_book
from tramplab.lab.names import NAMES
from tramplab.native.states import EMPTY

#: A name -> the hooks that have it somewhere.
CALLED: dict[str, set[str]] = {name: {hook} for name, hook in EMPTY.items()}
for hook, names in NAMES.items():
    for name in {hook, names.image, *names.boot}:
        CALLED[name] = {hook} | CALLED.get(name, set())
#: Those that may: the table itself; and a tracer -> who knows of it when a stack is unwound, in the same words.
MAY = {"tramplab.native.states", "tramplab_book.studies.returns.unwinding.unwound_calls"}


def mapped(found: dict) -> set[str]:
    """Names under which a dictionary has another name of the same hook."""
    return {
        key
        for key, value in found.items()
        for word in (value if isinstance(value, tuple | list) else [value])
        if isinstance(word, str) and word != key and CALLED.get(key, set()) & CALLED.get(word, set())
    }


def written(source: str) -> set[str]:
    """The same of the dictionaries that are written in a source, in functions too."""
    found = set()
    for node in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Dict)):
        items = [(k.value, v) for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant)]
        words = {k: [v, *getattr(v, "elts", ())] for k, v in items}
        found |= mapped({k: [getattr(w, "value", None) for w in of] for k, of in words.items()})
    return found


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ('{"fgraph": "graph"}', True),
        ('f({"kprobe-event": ("kprobe", "kprobe-brk")})', True),
        ('{"fgraph": "fgraph", "kprobe": "kretprobe", "ops": ("ops", 2)}', False),
    ],
)
def test_a_map_of_names_is_seen(source, seen):
    assert bool(written(source)) == seen


def test_no_other_module_has_one():
    found = {}
    for package in (tramplab, tramplab_book):
        for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not one.name.endswith((".__main__", ".setup")):
                module = importlib.import_module(one.name)
                made = [mapped(value) for value in vars(module).values() if isinstance(value, dict) and value is not EMPTY]
                with open(module.__file__, encoding="utf-8") as source:
                    found[one.name] = set().union(*made, written(source.read()))
    assert len(found) > 600 and {name for name, names in found.items() if names} == MAY
