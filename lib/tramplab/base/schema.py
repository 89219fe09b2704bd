"""Holds what a data file says against its schema in schemas/, with one sentence for what is wrong.

A schema says what one entry looks like; what entries owe each other, such as a name that another one must have, is checked by
the code that reads the file.
"""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import fastjsonschema

from . import documents
from .errors import TramplabError, unknown

#: With the package, as they say what it reads.
SCHEMAS = Path(__file__).resolve().parent.parent / "schemas"
#: What a schema's types are called.
_KINDS = {"object": "mapping", "array": "list", "string": "text", "integer": "whole number", "boolean": "true or false"}


def facts(file: str, schema: str) -> Any:
    """The content of a file of data/, checked by schemas/SCHEMA.yml; raises TramplabError that names the file and the mistake."""
    return checked(file, documents.read(file), schema)


def checked(file: str, data: Any, schema: str) -> Any:
    """The data, if it is as schemas/NAME.yml says; raises TramplabError that names the file, the entry and what is wrong.

    >>> checked("packages.yml", {}, "kernels")
    Traceback (most recent call last):
    tramplab.base.errors.TramplabError: packages.yml: the file has no images.
    """
    try:
        _validator(schema)(data)
    except fastjsonschema.JsonSchemaValueException as e:
        raise TramplabError(f"{file}: {_sentence(e, data)}") from None
    return data


@functools.cache
def _validator(schema: str) -> Callable[[Any], Any]:
    name = f"{schema}.yml"
    return fastjsonschema.compile(documents.parsed(name, documents.text(SCHEMAS / name, name)), use_default=False)


def _sentence(e: fastjsonschema.JsonSchemaValueException, data: Any) -> str:
    """The mistake, and its place."""
    path, definition = e.path[1:], e.definition
    whole, part = _place(path, data), _place(path[:-1], data)
    key, value = path[-1] if path else "it", reprlib.repr(e.value)
    if key.isdigit():  # of a list
        key = whole.rpartition(", ")[2]
    match e.rule:
        case "required" | "additionalProperties" | "propertyNames":
            return _keys(whole, e.value, definition)
        case "enum" if "description" not in definition:
            return f"{part}: {unknown(definition.get('title', key), e.value, e.rule_definition)}"
        case "minLength" | "minItems" | "minProperties" if not e.value:
            return f"{part}: {key} is empty; fill it in or leave it out."
        case "type" if e.rule_definition == "string" and isinstance(e.value, (bool, int, float)):
            return f"{part}: {key} is read as {value}; put it in quotes."
        case "type":
            wanted = e.rule_definition if isinstance(e.rule_definition, list) else [e.rule_definition]
            kinds = [str(_KINDS.get(k, k)) for k in wanted if k != "null"]
            return f"{part}: {key} must be a {' or a '.join(kinds)}, not {value}."
        case "minimum" | "maximum" if "description" not in definition:
            return f"{part}: {key} must be at {'least' if e.rule == 'minimum' else 'most'} {e.rule_definition}, not {value}."
    if "description" in definition:
        return f"{part}: {definition['description']}, not {value}."
    return f"{part}: {key} cannot be {value}."


def _keys(whole: str, found: Iterable[object], said: dict[str, Any]) -> str:
    """The mistake in the keys of a mapping. A missing key may be there under another name, which is then reported."""
    known = said.get("properties") or said.get("propertyNames", {"enum": ()})["enum"]
    closed = "propertyNames" in said or said.get("additionalProperties") is False
    if strange := [k for k in found if k not in known and closed]:
        return f"{whole}: {unknown('key', strange[0], known)}"
    return f"{whole} has no {' and no '.join(k for k in said['required'] if k not in found)}."


def _place(path: list[str], data: Any) -> str:
    """An entry as a reader calls it: those of lists by their ids, or numbers.

    >>> _place(["claims", "1", "said"], {"claims": [{}, {"id": "x2", "said": 1}]})
    'x2, said'
    >>> _place(["threads", "S"], {"threads": {"S": {}}})
    'thread S'
    """
    words: list[str] = []
    for step in path:
        if isinstance(data, list):
            data = data[int(step)]
            name = str(data["id"]) if isinstance(data, dict) and isinstance(data.get("id"), str) else None
            words = [name] if name else [*words, f"number {int(step) + 1}"]
        else:
            data = data.get(step) if isinstance(data, dict) else None
            group = words and isinstance(data, dict) and words[-1].endswith("s")
            words.append(f"{words.pop().removesuffix('s')} {step}" if group else step)
    return ", ".join(words) or "the file"
