"""Holds what a data file says against its schema in schemas/, with one sentence for what is wrong.

A schema says what one entry looks like; what entries owe each other, such as a name that another one must have, is checked by
whoever reads the file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastjsonschema

from .errors import TramplabError, unknown
from .paths import read_yaml

#: With the package, as they say what it reads.
SCHEMAS = Path(__file__).resolve().parent / "schemas"
#: What a schema's types are called.
_KINDS = {"object": "mapping", "array": "list", "string": "text", "integer": "whole number", "boolean": "true or false"}


def checked(file: str, data: Any, schema: str) -> Any:
    """The data, if it is as schemas/NAME.yml says; raises TramplabError that names the file, the entry and what is wrong.

    >>> checked("claims.yml", {"threads": {}, "chapters": {}}, "claims")
    Traceback (most recent call last):
    tramplab.errors.TramplabError: claims.yml: the file has no claims.
    """
    try:
        _validator(schema)(data)
    except fastjsonschema.JsonSchemaValueException as e:
        raise TramplabError(f"{file}: {_sentence(e, data)}") from None
    return data


@functools.cache
def _validator(schema: str) -> Callable[[Any], Any]:
    text = (SCHEMAS / f"{schema}.yml").read_text("utf-8")
    return fastjsonschema.compile(read_yaml(text), use_default=False)


def _sentence(e: fastjsonschema.JsonSchemaValueException, data: Any) -> str:
    """What is wrong, where."""
    path, said = e.path[1:], e.definition
    whole, part = _place(path, data), _place(path[:-1], data)
    key = path[-1] if path else "it"
    if e.rule in ("required", "additionalProperties"):
        known = said["properties"]
        strange = [k for k in e.value if k not in known and said.get("additionalProperties") is False]
        if strange:  # what is missing may be there under this name
            return f"{whole}: {unknown('key', strange[0], known)}"
        return f"{whole} has no {' and no '.join(k for k in e.rule_definition if k not in e.value)}."
    match e.rule:
        case "enum":
            return f"{part}: {unknown(said.get('title', key), e.value, e.rule_definition)}"
        case "minLength" | "minItems" | "minProperties":
            return f"{part}: {key} is empty; fill it in or leave it out."
        case "type" if e.rule_definition == "string" and isinstance(e.value, (bool, int, float)):
            return f"{part}: {key} is read as {e.value!r}; put it in quotes."
        case "type":
            wanted = e.rule_definition if isinstance(e.rule_definition, list) else [e.rule_definition]
            kinds = [str(_KINDS.get(k, k)) for k in wanted if k != "null"]
            return f"{part}: {key} must be a {' or a '.join(kinds)}, not {e.value!r}."
    return f"{part}: {said.get('description') or key + ' cannot be'}, not {e.value!r}."


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
            own = str(data["id"]) if isinstance(data, dict) and isinstance(data.get("id"), str) else None
            words = [own] if own else [*words, f"number {int(step) + 1}"]
        else:
            data = data.get(step) if isinstance(data, dict) else None
            group = words and isinstance(data, dict) and words[-1].endswith("s")
            words.append(f"{words.pop().removesuffix('s')} {step}" if group else step)
    return ", ".join(words) or "the file"
