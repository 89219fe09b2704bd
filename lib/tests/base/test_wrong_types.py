"""Whatever a public function of a room is given, it works or says what is wrong in a sentence: each parameter, each type."""

import argparse
import functools
import importlib
import inspect
import pkgutil
import tempfile
import types
import typing
from collections import abc
from pathlib import Path

import numpy as np
import pytest

from support.complaints import complaint
from support.models.contexts import saved
from tramplab import Fprobe, Kernel, Kretprobe, TramplabError, contention, races, returns, sparsity
from tramplab.base import signatures
from tramplab.contention import contend, pools
from tramplab.emulate.image import Image
from tramplab.races import explore
from tramplab.races.barriers import barriers
from tramplab.races.model.cpu import Cpu
from tramplab.races.model.executions import Executions
from tramplab.races.model.fetches import Fetches
from tramplab.races.model.locals import Interned
from tramplab.races.model.plan import Hidden, moments
from tramplab.races.model.threads import Threads
from tramplab.races.scenarios.every import Scenario
from tramplab.races.scenarios.saved import Saved
from tramplab.races.schemes import play
from tramplab.races.schemes.schemes import scheme
from tramplab.races.search.automaton import Automaton
from tramplab.races.search.rows import rows
from tramplab.returns import nest
from tramplab.returns.bounds import Bounds
from tramplab.returns.features.stage import Row, Stage
from tramplab.returns.mechanisms import builds
from tramplab.returns.tasks import Tasks
from tramplab.sparsity.consumers.consumers import CONSUMERS, read
from tramplab.sparsity.consumers.matrix import Place, matrix
from tramplab.sparsity.context.helpers import helper
from tramplab.sparsity.context.programs import PROGRAMS
from tramplab.sparsity.context.refusal import Refusal
from tramplab.sparsity.context.rewrite import Change
from tramplab.sparsity.context.state import State
from tramplab.sparsity.structures import fields, frames, views
from tramplab.sparsity.structures.classify import Sample
from tramplab.sparsity.ways.ways import ways


class Stranger:
    """Of a type that nobody asks for."""


#: Of many types, of which a parameter takes few.
VALUES = [None, True, 5, -1, 1 << 70, np.int64(3), 1.5, "x", "", b"x", [1], [None], ("x",), (), {"a": 1}, {1}, Stranger(), Stranger]


def modules():
    """Those of the rooms, each with whether only its constructors are checked."""
    for package in (contention, races, returns, sparsity):
        for name in [package.__name__, *(m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))]:
            yield importlib.import_module(name), name.removeprefix(f"{package.__name__}.") in package.INNER


#: Every public function, method and constructor that is checked, by its place.
FUNCTIONS = {
    f"{module.__name__.removeprefix('tramplab.')}.{name}": function
    for module, inner in modules()
    for name, function in signatures.public(module, inner).items()
}


@functools.cache
def stock():
    """Something right of most types that there are."""
    k = Kernel("arm64")
    f = k.function("two_args")
    (ops,) = k.attach(f, Fprobe(entry=False, exit=True))
    of = scheme("riscv64-pair").subject()
    wait = next(b for b in barriers(of) if b.name == "stop_machine").numbers
    ran = Executions(of)
    when = moments("riscv64", of.steps, of.preemptible, False)
    fetches = Fetches(ran, when, "stale")
    one = Automaton(Threads(ran, when, fetches))
    one.build()
    bad = explore(of, 1, dropped=wait)
    found = matrix(k, views.views(k)[0])
    probe = functools.partial(Kretprobe, breakpoint=True)
    nested = nest(Kernel("arm64"), probe(), 1, 1)
    tasks = Tasks(Kernel("arm64", meter="count"), f, 1)
    contended, at = contend("arm64", "freelist", 1, operations=4), pools.pool("arm64", "freelist", 1)
    written, struct = next(iter(PROGRAMS.values())), k.image.struct("pt_regs")
    program = written.on(k.isa, struct)
    seen = frames.watched(k, found.view.provider, (0,), (0,))
    reading = read(k, "return-value", "pt_regs", k.memory(*range(40)))
    with tempfile.TemporaryDirectory() as folder:
        file = Saved(Path(folder) / "file", 1, 1000)
    return [
        *(k, f, ops, ops.request, k.isa, k.machine, k.machine.stack, k.image, k.features, k.cpus[0], k.slowpath, k.call(f, 1, 2)),
        *(of, of.call, of.ops[0], *of.steps, when[0], Hidden("riscv64"), scheme("riscv64-pair"), ran, Cpu(of), Interned(), fetches),
        *(one, rows(one), bad, bad.violation, bad.schedule[0], one.threads, Scenario("riscv64-pair", "stale", "", 1, 1000), file),
        *(play.in_lab(Kernel("riscv64")), Stage(Kernel("arm64", meter="count"), probe()), Row(True, 0, 0, 0, ())),
        *(tasks, tasks.all[0], nested, nested.counted, Bounds(lambda: Kernel("arm64"), probe)),
        *(contended, contended.counted, at, at.setting, Sample(0, 0, {}, {}), frames.Between(f.address, None, f.address, "x0", 8)),
        *(found, found.view, found.view.provider, found.frame, found.cells[0], *seen.values(), Place(k, found.view)),
        *(reading, reading.watched, ways(k)[0], CONSUMERS["argument"], fields.places(k.image, "pt_regs")[0]),
        *(struct, written, *program, found.frame.slots["pc"], saved("arm64"), *saved("arm64").places[0], helper(14, 0), State()),
        *(Refusal("invalid", "no"), Change(0, program[0], program[0], ()), builds("arm64")[0]),
    ]


#: A right value of each plain type.
PLAIN = {int: 1, str: "two_args", bool: False, bytes: bytes(16), float: 1.5, Path: Path("nowhere"), types.NoneType: None}


def right(hint):
    """A value of a type; raises LookupError if there is none in stock."""
    of, inside = typing.get_origin(hint) or hint, typing.get_args(hint)
    if of in (typing.Union, types.UnionType):
        return right(types.NoneType if types.NoneType in inside else inside[0])
    if of in PLAIN:
        return PLAIN[of]
    if of in (typing.Any, object):
        return 1
    if of is abc.Callable:
        return lambda *given: None
    if of is tuple and ... not in inside:
        return tuple(map(right, inside))
    if of in (dict, abc.Mapping):
        return {right(inside[0]): right(inside[1])}
    if isinstance(of, type) and issubclass(of, abc.Iterable) and inside:
        return (of if of in (list, set, frozenset) else tuple)([right(inside[0])])
    if getattr(of, "_is_protocol", False):
        return right(Image)
    try:
        return next(one for one in stock() if isinstance(one, of))
    except StopIteration:
        raise LookupError(str(hint)) from None


def parameters(function):
    """Name -> (how it is given, of what type), without self."""
    hints = typing.get_type_hints(inspect.unwrap(function))
    return {n: (p, hints[n]) for n, p in inspect.signature(function).parameters.items() if n != "self"}


def fits(hint, value):
    """May a parameter be this? None where that depends on what is in it."""
    of, inside = typing.get_origin(hint) or hint, typing.get_args(hint)
    number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    plain = {int: number, float: number or isinstance(value, float), typing.Any: True, object: True, abc.Callable: callable(value)}
    if of in (typing.Union, types.UnionType):
        every = [fits(member, value) for member in inside]
        return True if True in every else None if None in every else False
    if of in plain:
        return plain[of]
    if isinstance(of, type) and issubclass(of, abc.Iterable) and inside:
        return None if isinstance(value, (list, tuple, set, dict)) else False
    return isinstance(of, type) and not getattr(of, "_is_protocol", False) and isinstance(value, of)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_wrong_type_is_a_sentence_that_names_the_parameter(name):
    """What else it is given does not matter: nothing is done."""
    for parameter, (how, hint) in parameters(FUNCTIONS[name]).items():
        if how.kind is how.VAR_POSITIONAL:
            continue
        for value in VALUES:
            if fits(hint, value) is False:
                said = complaint(lambda parameter=parameter, value=value: FUNCTIONS[name](**{parameter: value}))
                assert said.startswith(f"{parameter} is ") and ", not " in said and len(said) < 400


#: What a command line is given, which argparse has looked at.
COMMANDS = argparse.Namespace, argparse.ArgumentParser, argparse._SubParsersAction
CALLED = [name for name, f in FUNCTIONS.items() if not any(hint in COMMANDS for _, hint in parameters(f).values())]


@pytest.mark.parametrize("name", CALLED)
def test_no_other_error_gets_out(name, tmp_path, monkeypatch):
    """Of one value that may be wrong, or may not, beside others of the right types."""
    monkeypatch.chdir(tmp_path)
    function, asked, call = FUNCTIONS[name], parameters(FUNCTIONS[name]), FUNCTIONS[name]
    of = vars(importlib.import_module(function.__module__))[function.__qualname__.partition(".")[0]]
    if inspect.isclass(of):
        call = of if function.__name__ == "__init__" else functools.partial(function, right(of))
    several = [n for n, (how, _) in asked.items() if how.kind is how.VAR_POSITIONAL]
    needed = {
        n: right(hint)
        for n, (how, hint) in asked.items()
        if how.default is how.empty and how.kind not in (how.VAR_POSITIONAL, how.VAR_KEYWORD)
    }
    for parameter, (_, hint) in asked.items():
        for value in VALUES:
            if callable(value) and fits(hint, value):
                continue  # what it raises is its own
            try:
                if parameter in several:
                    call(*needed.values(), value)
                else:
                    call(**{**needed, parameter: value})
            except TramplabError:
                pass
            except Exception as e:
                raise AssertionError(f"{parameter}={value!r}: {type(e).__name__}: {e}") from e
