"""Public functions that hold what they are given against their annotations, before they do anything with it.

A room asks for it once, in its __init__.py: `signatures.hold(__name__)`. Each module of it is then imported with its public
functions, and the public methods of its public classes, checked. A wrong type is one sentence that names the parameter, what it
must be and what it was. Numbers of numpy's are as good as Python's, and become such; True is none; a string is no sequence.

Only what comes from outside is looked at: calls that a checked function makes itself are not checked again, which would take time.
beartype checks those, too, refuses numpy's numbers, takes True for one, and is half of the time in which a short command starts.
"""

from __future__ import annotations

import enum
import functools
import importlib.machinery
import inspect
import itertools
import numbers
import sys
import threading
import types
import typing
from collections import abc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import numpy as np

from .errors import TramplabError, shown


def hold(room: str, inner: Collection[str] = ()) -> None:
    """Have the modules of a package checked when they are imported. inner: names of modules of which only the constructors are,
    such as those that are called for every instruction."""
    sys.meta_path.insert(0, _Finder(room, {f"{room}.{name}" for name in inner}))


def public(module: types.ModuleType, inner: bool = False) -> dict[str, Callable[..., Any]]:
    """The checked functions of a module, by name: functions, methods, and constructors by the names of their classes. inner: only
    constructors."""
    found: dict[str, Callable[..., Any]] = {}
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value):
            found |= {f"{name}.{of}".removesuffix(".__init__"): method for of, method in _methods(value).items()}
        elif inspect.isroutine(value) or hasattr(value, "cache_info"):
            found[name] = value
    return {name: f for name, f in found.items() if not inner or inspect.isclass(vars(module).get(name))}


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that raises TramplabError for what is not as its annotations say.

    >>> @checked
    ... def call(function: str, arguments: Sequence[int], cpu: int | None = None) -> int:
    ...     return len(arguments)
    >>> call("one_arg", [1, 2])
    2
    >>> call("one_arg", [1, "2"])
    Traceback (most recent call last):
    tramplab.base.errors.TramplabError: each of arguments is a whole number, not '2'.
    >>> call("one_arg", (), cpu="0")
    Traceback (most recent call last):
    tramplab.base.errors.TramplabError: cpu is a whole number or None, not '0'.
    """
    parameters = functools.cache(lambda: _parameters(function))  # when it is first called, as a room may be imported for one alone

    @functools.wraps(function)
    def entry(*args: Any, **named: Any) -> Any:
        if _here.inside:
            return function(*args, **named)
        for name, kind, value in parameters().given(args, named):
            if not kind.takes(value):
                raise kind.refusal(name, value)
        _here.inside = True
        try:
            return function(*map(_plain, args), **{name: _plain(value) for name, value in named.items()})
        finally:
            _here.inside = False

    for name in ("cache_clear", "cache_info"):
        if hasattr(function, name):
            setattr(entry, name, getattr(function, name))
    return entry


def _plain(value: Any) -> Any:
    """A number of numpy's as one of Python's, which does not overflow."""
    return value.item() if isinstance(value, np.generic) else value


class _Here(threading.local):
    """Whether this thread is inside a checked call."""

    inside = False


_here = _Here()

# --- At the import of a module


class _Loader(importlib.machinery.SourceFileLoader):
    inner = False

    def exec_module(self, module: types.ModuleType) -> None:
        super().exec_module(module)
        for name, function in public(module, self.inner).items():
            of, _, method = name.partition(".")
            if method or inspect.isclass(vars(module)[of]):
                setattr(vars(module)[of], method or "__init__", checked(function))
            else:
                setattr(module, name, checked(function))


class _Finder(MetaPathFinder):
    def __init__(self, room: str, inner: Collection[str]) -> None:
        self._room, self._inner = room, inner

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not f"{name}.".startswith(f"{self._room}."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
            spec.loader.inner = name in self._inner
        return spec


def _methods(of: type) -> dict[str, Callable[..., Any]]:
    """The public methods that a class defines, and its constructor; none of a named tuple, an enumeration or a Protocol."""
    if issubclass(of, (tuple, enum.Enum)) or getattr(of, "_is_protocol", False):
        return {}
    return {name: f for name, f in vars(of).items() if inspect.isfunction(f) and (name == "__init__" or not name.startswith("_"))}


# --- What a parameter must be


@dataclass(frozen=True)
class _Kind:
    """What a value may be.

    one, several: in words.
    fits: is a value of this kind, whatever is in it?
    elements: what is in a value that fits, each with what it may be.
    """

    one: str
    several: str
    fits: Callable[[Any], bool]
    elements: Callable[[Any], Iterable[tuple[_Kind, Any]]] | None = None

    def takes(self, value: Any) -> bool:
        return self.fits(value) and (self.elements is None or all(kind.takes(each) for kind, each in self.elements(value)))

    def refusal(self, name: str, value: Any) -> TramplabError:
        """The error for a value that is not of this kind; it names the element that is wrong where all else is right."""
        if self.fits(value) and self.elements is not None:
            kind, wrong = next((kind, each) for kind, each in self.elements(value) if not kind.takes(each))
            return kind.refusal(name if name.startswith(_EACH) else _EACH + name, wrong)
        return TramplabError(f"{name} is {self.one}, not {shown(value)}.")


_EACH = "each of "
_ARGS, _NAMED = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
_ANYTHING = _Kind("anything", "anything", lambda value: True)
#: Types that are not called by their names, or have more than their instances.
_PLAIN: Mapping[Any, _Kind] = {
    int: _Kind("a whole number", "whole numbers", lambda value: type(value) is int or _is_number(value, numbers.Integral)),
    float: _Kind("a number", "numbers", lambda value: type(value) is float or _is_number(value, numbers.Real)),
    bool: _Kind("True or False", "True or False", lambda value: isinstance(value, (bool, np.bool_))),
    str: _Kind("a string", "strings", lambda value: isinstance(value, str)),
    bytes: _Kind("bytes", "bytes", lambda value: isinstance(value, (bytes, bytearray))),
    Path: _Kind("a path", "paths", lambda value: isinstance(value, Path)),
    types.NoneType: _Kind("None", "None", lambda value: value is None),
    abc.Callable: _Kind("a function", "functions", callable),
    object: _ANYTHING,
    Any: _ANYTHING,
}


def _is_number(value: Any, of: type) -> bool:
    return isinstance(value, of) and not isinstance(value, bool)


def _kind(hint: Any) -> _Kind:
    """The kind that an annotation stands for."""
    of, inside = typing.get_origin(hint), typing.get_args(hint)
    if of in (typing.Union, types.UnionType):
        kinds = [_kind(member) for member in inside]
        one, several = (" or ".join(dict.fromkeys(words)) for words in ([k.one for k in kinds], [k.several for k in kinds]))
        return _Kind(one, several, lambda value: any(kind.takes(value) for kind in kinds))
    of = of or hint
    if not isinstance(of, type):  # a caller's choice
        return _ANYTHING
    if of in _PLAIN:
        return _PLAIN[of]
    name = of.__name__.lower() if of.__module__ in ("builtins", abc.__name__) else of.__name__
    one = f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
    if getattr(of, "_is_protocol", False) and of.__module__ != abc.__name__:
        wanted = [name for name in {**vars(of), **of.__annotations__} if not name.startswith("_")]
        return _Kind(one, f"{name} objects", lambda value: all(hasattr(value, name) for name in wanted))
    if inside and issubclass(of, abc.Iterable):
        return _container(of, inside, one, f"{name}s")
    return _Kind(one, f"{name} objects", lambda value: isinstance(value, of))


def _container(of: type, inside: tuple[Any, ...], one: str, several: str) -> _Kind:
    """The kind of a container. A string is none; the elements of an iterator, which yields them only once, are not looked at."""
    kinds = [_kind(each) for each in inside if each is not ...]
    if of is tuple and ... not in inside:
        words, number = " and ".join(kind.one for kind in kinds), len(kinds)
        return _Kind(
            f"{one} of {words}",
            f"{several} of {words}",
            lambda value: isinstance(value, tuple) and len(value) == number,
            lambda value: zip(kinds, value, strict=True),
        )

    def fits(value: Any) -> bool:
        return isinstance(value, of) and not isinstance(value, (str, bytes, bytearray))

    if issubclass(of, abc.Mapping):
        keys, values = kinds
        words = f"{keys.several} to {values.several}"
        pairs = lambda value: ((kind, each) for pair in value.items() for kind, each in zip(kinds, pair, strict=True))  # noqa: E731
        return _Kind(f"{one} of {words}", f"{several} of {words}", fits, pairs)
    (kind,) = kinds
    return _Kind(
        f"{one} of {kind.several}",
        f"{several} of {kind.several}",
        fits,
        lambda value: ((kind, each) for each in value) if isinstance(value, abc.Collection) else (),
    )


@dataclass(frozen=True)
class _Parameters:
    """What the arguments of a function may be.

    first: parameters that can be given by position.
    more: of further arguments by position (*args).
    named: parameters that can be given by name.
    others: of further arguments by name (**kwargs).
    """

    first: Sequence[tuple[str, _Kind]]
    more: tuple[str, _Kind]
    named: Mapping[str, _Kind]
    others: _Kind

    def given(self, args: Sequence[Any], named: Mapping[str, Any]) -> Iterator[tuple[str, _Kind, Any]]:
        """Each value that a call has, with the name of its parameter and what it may be."""
        for value, (name, kind) in zip(args, itertools.chain(self.first, itertools.repeat(self.more)), strict=False):
            yield name, kind, value
        for name, value in named.items():
            yield name, self.named.get(name, self.others), value


def _parameters(function: Callable[..., Any]) -> _Parameters:
    hints, every = typing.get_type_hints(inspect.unwrap(function)), inspect.signature(function).parameters.values()
    of = {p.name: (p.kind, _kind(hints.get(p.name, Any))) for p in every}
    several = {how: (name, kind) for name, (how, kind) in of.items() if how in (_ARGS, _NAMED)}
    name, more = several.get(_ARGS, ("", _ANYTHING))
    return _Parameters(
        [(name, kind) for name, (how, kind) in of.items() if how not in (_ARGS, _NAMED, inspect.Parameter.KEYWORD_ONLY)],
        (_EACH + name, more),
        {name: kind for name, (how, kind) in of.items() if how not in (_ARGS, _NAMED)},
        several.get(_NAMED, ("", _ANYTHING))[1],
    )
