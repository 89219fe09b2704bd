"""One walk as the small JSON that book/_static/stepper.js reads.

places: registers that change, and those to be shown all the same, then memory; a number is an offset to S in bytes. values: the
texts they hold. start: index into values per place, -1 where the call does not tell. code: an instruction, or the index of the
symbol that the following ones are in. steps: per step a flat list, "place, value" for what it changed and ~place for what it read;
the code goes on with the next line except where jumps (step -> line) says otherwise. registers: how many places are registers. sp:
the stack pointer's place, -1 for a walk that has none. memory: the rows to show, a place or a stretch of the stack that the call
leaves alone, as [top, bottom, what it is called]. fields: place -> what the word is called. same: name and value of each register
that never changes and is not shown.
"""

from __future__ import annotations

import re

WORD = 8  # bytes of a word of the stack
_STACK = re.compile(r"S(?:([+-])0x([0-9a-f]+))?")


def pack(walk: dict) -> dict:
    """The walk with every name and value written once."""
    registers = _changing(walk)
    touched = dict.fromkeys(name for _, _, stores, loads in walk["steps"] for name in (*stores, *loads))
    offsets = sorted((offset for name in touched if (offset := _offset(name)) is not None), reverse=True)
    memory = [*map(_name, offsets), *(name for name in touched if _offset(name) is None)]
    place = {name: n for n, name in enumerate(registers + memory)}
    values: dict[str, int] = {}

    def value(text: str) -> int:
        return values.setdefault(text, len(values))

    known = {**walk["registers"], **walk["memory"]}
    start = [value(known[name]) if name in known else -1 for name in place]
    steps = [
        [n for name, text in {**changed, **stores}.items() if name in place for n in (place[name], value(text))]
        + [~place[name] for name in loads]
        for _, changed, stores, loads in walk["steps"]
    ]
    deepest = [offset for text in values if (offset := _offset(text)) is not None and offset < 0]
    return {
        "isa": walk["isa"],
        "config": walk["config"],
        "sp": place.get(walk["sp"], -1),
        "symbols": walk["symbols"],
        "code": _code(walk["code"]),
        "places": [name if (offset := _offset(name)) is None else offset for name in place],
        "registers": len(registers),
        "values": list(values),
        "start": start,
        "steps": steps,
        "jumps": _jumps([step[0] for step in walk["steps"]]),
        "milestones": walk["milestones"],
        "memory": _rows(offsets, min([*offsets, *deepest], default=0), place, walk["fields"])
        + [place[name] for name in memory[len(offsets) :]],
        "fields": {place[name]: field for name, field in walk["fields"].items() if name in place},
        "same": [[name, text] for name, text in walk["registers"].items() if name not in place],
    }


def _changing(walk: dict) -> list[str]:
    """The registers that change or are to be shown, and the stack pointer."""
    changing = {r for _, changed, _, _ in walk["steps"] for r in changed} | set(walk.get("shown", ()))
    registers = [r for r in walk["registers"] if r in changing]
    return [*registers, walk["sp"]] if walk["sp"] and walk["sp"] not in registers else registers


def _offset(name: str) -> int | None:
    """S-0x10 -> -16; None for what is no whole word of the stack."""
    if not (m := _STACK.fullmatch(name)):
        return None
    offset = int(m[2], 16) * (-1 if m[1] == "-" else 1) if m[1] else 0
    return offset if offset % WORD == 0 else None


def _name(offset: int) -> str:
    return f"S{offset:+#x}" if offset else "S"


def _code(code: list[list]) -> list[int | str]:
    out: list[int | str] = []
    last = None
    for symbol, _, text in code:
        out += [text] if symbol == last else [symbol, text]
        last = symbol
    return out


def _jumps(lines: list[int]) -> dict[int, int]:
    return {n: line for n, line in enumerate(lines) if line != (lines[n - 1] + 1 if n else 0)}


def _rows(offsets: list[int], lowest: int, place: dict[str, int], fields: dict[str, str]) -> list[int | list]:
    """The stack from its top down to the lowest stack pointer, stretches without an access in one row."""
    out: list[int | list] = []
    for n, offset in enumerate(offsets):
        if n and offset < (above := offsets[n - 1] - WORD):
            out.append(_gap(above, offset + WORD, fields))
        out.append(place[_name(offset)])
    if offsets and lowest < offsets[-1]:
        out.append(_gap(offsets[-1] - WORD, lowest, fields))
    return out


def _gap(top: int, bottom: int, fields: dict[str, str]) -> list:
    names = [fields[_name(offset)] for offset in range(top, bottom - 1, -WORD) if _name(offset) in fields]
    return [top, bottom, " ".join(names)]
