"""Files of facts as Python has them: text in UTF-8, and the YAML, JSON or CSV in it.

What cannot be read is one sentence that names the file and the place. A key that a mapping has twice is a mistake: of what it
stands for one would be lost, and nobody would see which.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar

import yaml

from .errors import TramplabError
from .paths import PACKAGE, data_file

_DATE = "tag:yaml.org,2002:timestamp"
#: Levels of nesting; no file of facts has as many. libyaml's loader would end the process where its stack does.
_DEEPEST = 100
#: Bits of a number at most: Python does not print larger ones.
_MOST_BITS = 4096
_DEEP, _LONG = "it is nested too deep", "a number has too many digits"
Number = TypeVar("Number", int, float)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """libyaml's loader where PyYAML was built with it: a tenth of the time. Refuses a mapping that has a key twice, of which
    PyYAML keeps the last. A date stays the text that it is, as in JSON."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in known if tag != _DATE]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    _depth = 0

    def descend_resolver(self, parent: yaml.Node | None, index: Any) -> None:
        """Called before each node is read."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise yaml.YAMLError(_DEEP)

    def ascend_resolver(self) -> None:
        """Called after each node that was read."""
        self._depth -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key in (k for k, _ in node.value if isinstance(k, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value} is there twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _construct_number(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    """A number that Python can also write: neither infinite nor of thousands of digits."""
    whole = node.tag == "tag:yaml.org,2002:int"
    return _finite(node.value, loader.construct_yaml_int(node) if whole else loader.construct_yaml_float(node))


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _construct_number)


def read_yaml(text: str) -> Any:
    """The content of a YAML document; raises yaml.YAMLError, also for a number that is none."""
    try:
        return yaml.load(text, Loader=_Loader)
    except ValueError as e:
        raise yaml.YAMLError(_number(e)) from None


def text(path: Path, name: str) -> str:
    """A file's text; raises TramplabError, with this name, where it cannot be read or is not UTF-8."""
    try:
        content = path.read_bytes()
    except OSError as e:
        raise TramplabError(f"cannot read {name}: {e.strerror}.") from None
    return decoded(name, content)


def decoded(name: str, content: bytes) -> str:
    """The text that the bytes of a file of this name are; raises TramplabError where they are not UTF-8."""
    try:
        return content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as e:
        line, column = content.count(b"\n", 0, e.start) + 1, e.start - content.rfind(b"\n", 0, e.start)
        raise TramplabError(f"{name} is not UTF-8: byte {content[e.start]:#04x} in line {line}, column {column}.") from None


def read(name: str, package: Path = PACKAGE) -> Any:
    """The content of a file of data/, see data_file(); raises TramplabError for text that is no such document."""
    return parsed(name, text(data_file(name, package), name))


def parsed(name: str, content: str, kind: str = "") -> Any:
    """What the text of a file of this name says. kind: yml, json or csv, where that is not how the name ends.

    >>> parsed("a.yml", "one: 1")
    {'one': 1}
    >>> parsed("a.csv", "id,value\\nx,1\\n")
    [{'id': 'x', 'value': '1'}]
    >>> parsed("a.yml", "one: 1\\none: 2")
    Traceback (most recent call last):
    tramplab.base.errors.TramplabError: a.yml is not YAML: the key one is there twice in line 2, column 1.
    """
    return _KINDS[kind or name.rpartition(".")[2]](name, content)


def _yaml(name: str, content: str) -> Any:
    try:
        return read_yaml(content)
    except yaml.MarkedYAMLError as e:
        mark, what = e.problem_mark, e.problem or e.context
        place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise TramplabError(f"{name} is not YAML: {what}{place}.") from None
    except yaml.YAMLError as e:
        raise TramplabError(f"{name} is not YAML: {' '.join(str(e).split())}.") from None


def _json(name: str, content: str) -> Any:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        whole = dict(found)
        if len(whole) < len(found):
            keys = [key for key, _ in found]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise TramplabError(f"{name} is not JSON: the key {twice} is there twice.")
        return whole

    def no_number(said: str) -> NoReturn:
        raise ValueError(f"{said} is no number")

    def real(said: str) -> float:
        return _finite(said, float(said))

    try:
        return json.loads(content, object_pairs_hook=pairs, parse_constant=no_number, parse_float=real)
    except json.JSONDecodeError as e:
        what = e.msg[:1].lower() + e.msg[1:].removesuffix(" starting at")
        raise TramplabError(f"{name} is not JSON: {what} in line {e.lineno}, column {e.colno}.") from None
    except ValueError as e:
        raise TramplabError(f"{name} is not JSON: {_number(e)}.") from None
    except RecursionError:
        raise TramplabError(f"{name} is not JSON: {_DEEP}.") from None


def _finite(said: str, number: Number) -> Number:
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError(f"{said} is no number")
    if isinstance(number, int) and number.bit_length() > _MOST_BITS:
        raise ValueError(_LONG)
    return number


def _number(e: ValueError) -> str:
    """Why Python does not take a number: it names a setting of its own where that has too many digits."""
    return _LONG if "int_max_str_digits" in str(e) else str(e)


def _csv(name: str, content: str) -> list[dict[str, str]]:
    """The rows of a CSV text, by the names that its first line gives the columns."""
    reader = csv.reader(content.splitlines(keepends=True), strict=True)
    try:
        head, rows = next(reader, []), []
        for row in reader:
            if len(row) != len(head):
                n = reader.line_num
                raise TramplabError(f"{name} is not CSV: line {n} has {len(row)} values, and there are {len(head)} columns.")
            rows.append(dict(zip(head, row, strict=True)))
    except csv.Error as e:
        raise TramplabError(f"{name} is not CSV: {e} in line {reader.line_num}.") from None
    if len(set(head)) < len(head):
        raise TramplabError(f"{name} is not CSV: two columns have the same name.")
    return rows


_KINDS: dict[str, Callable[[str, str], Any]] = {"yml": _yaml, "json": _json, "csv": _csv}
