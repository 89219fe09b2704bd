"""A recorded call from some step on: how it ends, without how it came there."""

from __future__ import annotations

from typing import Any


def rest(walk: dict[str, Any], milestones: dict[str, int]) -> dict[str, Any]:
    """What a walk does from the first of these milestones on, as a walk of its own (see walk.py for its form).

    milestones: name -> step of the whole walk, in order. What registers and memory hold at the start is what the steps before have
    left there. The words of the entry's register frame are not named: it may be gone.

    >>> whole = {"code": [[0, 0, "push rax"], [1, 0, "pop rax"]], "symbols": [["f", "function"], ["g", "core"]], "milestones": {},
    ...     "registers": {"rax": "1", "rsp": "S"}, "memory": {}, "fields": {},
    ...     "steps": [[0, {"rsp": "S-0x8"}, {"S-0x8": "1"}, []], [1, {"rsp": "S"}, {}, ["S-0x8"]]]}
    >>> end = rest(whole, {"pop": 1})
    >>> end["registers"], end["memory"], end["code"], end["symbols"], end["milestones"]
    ({'rax': '1', 'rsp': 'S-0x8'}, {'S-0x8': '1'}, [[0, 0, 'pop rax']], [['g', 'core']], {'pop': 0})
    """
    first = next(iter(milestones.values()))
    registers, held = dict(walk["registers"]), dict(walk["memory"])
    for _, changed, stores, _ in walk["steps"][:first]:
        for name, value in {**changed, **stores}.items():
            (registers if name in registers else held)[name] = value
    steps = walk["steps"][first:]
    used = list(dict.fromkeys(step[0] for step in steps))
    symbols = list(dict.fromkeys(walk["code"][place][0] for place in used))
    return {
        **walk,
        "symbols": [walk["symbols"][symbol] for symbol in symbols],
        "code": [[symbols.index(symbol), *where] for symbol, *where in (walk["code"][place] for place in used)],
        "registers": registers,
        "memory": {name: held[name] for name in _read_first(steps) if name in held},
        "fields": {},
        "steps": [[used.index(place), *what] for place, *what in steps],
        "milestones": {name: step - first for name, step in milestones.items()},
    }


def _read_first(steps: list[Any]) -> list[str]:
    """The places that are loaded from before anything is stored there."""
    seen: dict[str, bool] = {}
    for _, changed, stores, loads in steps:
        for name in loads:
            seen.setdefault(name, True)
        for name in (*stores, *changed):
            seen.setdefault(name, False)
    return [name for name, read in seen.items() if read]
