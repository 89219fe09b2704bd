"""The pipeline's model, compiled: what pipeline.c needs of a lowered program, in arrays."""

from __future__ import annotations

import ctypes
import itertools
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..base.errors import TramplabError
from ..emulate.compiled import library
from .lower import Lowered, LoweredProgram

SOURCE = Path(__file__).with_name("pipeline.c")
#: Ports of a core, and different sets of them, that there is room for.
_PORTS, _KINDS = 32, 16
#: Cycles that there is room for at first.
_CYCLES = 1 << 13
_ARRAYS = "items missed set ready late done drained before written history used taken later".split()
_NUMBERS = (
    "n_items n_registers n_stores repetitions n_cycles in_order fetch width window buffer per_cycle loads_wait locks_wait "
    "mispredict late_stage load store alu data took over".split()
)


class _Model(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in _ARRAYS),
        *((name, ctypes.c_int64) for name in _NUMBERS),
        ("kinds", ctypes.c_uint32 * _KINDS),
        *((name, ctypes.c_int64) for name in "n_kinds n_drained full fetched left cycle room last".split()),
    ]


class _Cycles:
    """The state of each cycle, the most memory that a model needs: nothing, before it has run and after."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._arrays = {
            "used": np.zeros(room, np.int32),
            "taken": np.zeros(room * _PORTS, np.uint32),
            "later": np.zeros(room * _KINDS, np.int32),
        }
        self.addresses = {name: values.ctypes.data for name, values in self._arrays.items()}


#: Those that no model uses now.
_idle: list[_Cycles] = []
#: id() of an item -> the item and its bytes in the stream: most stay the same where a parameter is changed.
_pieces: dict[int, tuple[Lowered, bytes]] = {}
_MOST = 1 << 14
#: id() of the items of one of the last programs -> the items and their stream: they stay the same where one of the pipeline's own
#: parameters is changed.
_whole: dict[int, tuple[tuple[Lowered, ...], np.ndarray]] = {}
_PROGRAMS = 64


def _streamed(items: tuple[Lowered, ...]) -> np.ndarray:
    stored = _whole.get(id(items))
    if stored is None:
        if len(_whole) >= _PROGRAMS:
            _whole.clear()
        if len(_pieces) >= _MOST:
            _pieces.clear()
        stream = b"".join([(_pieces.get(id(item)) or _piece(item))[1] for item in items])
        stored = _whole[id(items)] = items, np.frombuffer(stream, np.int32)
    return stored[1]


def _piece(item: Lowered) -> tuple[Lowered, bytes]:
    (
        _, slots, bubble, keeps, address, reads, writes, bumps, ports, latency, loads, load_cycles, stores, store_cycles, barrier,
        atomic, can_be_late,
    ) = item  # fmt: skip
    made = [
        *(slots, bubble, keeps, ports, latency, load_cycles, stores, store_cycles, barrier, atomic, can_be_late),
        *(len(address), *address, len(reads), *reads, len(writes), *writes, len(bumps), *bumps, len(loads)),
    ]
    for written_by, forward, after in loads:
        made += (len(written_by), *written_by, forward, after)
    found = _pieces[id(item)] = item, array("i", made).tobytes()
    return found


def cycles(program: LoweredProgram, missed: Sequence[frozenset[int]], in_order: bool) -> float:
    """Cycles per repetition, see pipeline.cycles(). missed: per repetition, the steps whose return is mispredicted. Raises
    TramplabError where a core has more ports, or more different sets of them, than there is room for."""
    lib = library(SOURCE)
    if max(program.accesses.values()) >> _PORTS - 1:
        raise _too_many()
    sets = list(dict.fromkeys(one for one in missed if one))
    flags = np.array([[item.step in one for item in program.items] for one in sets], np.uint8)
    items, which = _streamed(program.items), np.array([sets.index(one) if one else -1 for one in missed], np.int32)
    parameters = _parameters(program, len(missed), in_order)
    sizes = _sizes(parameters)
    try:
        cycles = _idle.pop()
    except IndexError:
        cycles = _Cycles(_CYCLES)
    while True:
        numbers = np.zeros(sum(sizes.values()), np.int64)
        starts = itertools.accumulate(sizes.values(), initial=0)
        at = numbers.ctypes.data
        model = _Model(
            **{name: at + 8 * start for name, start in zip(sizes, starts, strict=False)},
            **cycles.addresses,
            items=items.ctypes.data,
            missed=flags.ctypes.data,
            set=which.ctypes.data,
            n_cycles=cycles.room,
            **parameters,
        )
        full = lib.tramplab_pipeline(ctypes.byref(model))
        if full == 1:
            cycles = _Cycles(4 * cycles.room)
            continue
        _idle.append(cycles)
        if full:
            raise _too_many()
        return model.took / model.over


def _parameters(program: LoweredProgram, repetitions: int, in_order: bool) -> dict[str, int]:
    """What pipeline.c wants to know of a program and its core."""
    v, use = program.values, program.accesses
    return {
        "n_items": len(program.items),
        "n_registers": len(program.numbers),
        "n_stores": program.stores,
        "repetitions": repetitions,
        "in_order": in_order,
        "fetch": v["width"] if in_order else v["fetch"],
        "width": v["width"],
        "window": v.get("window", 1),
        "buffer": v.get("store_buffer", 0),
        "per_cycle": v.get("stores_per_cycle", 0),
        "loads_wait": v.get("loads_wait", 0),
        "locks_wait": v.get("locks_wait", 0),
        "mispredict": v["mispredict"],
        "late_stage": v.get("late_stage", 0),
        "load": use["load"],
        "store": use["store"],
        "alu": use.get("alu", 0),
        "data": use.get("store_data", 0),
        "n_drained": max(v.get("store_buffer", 0), v.get("stores_per_cycle", 0)),
    }


def _sizes(of: dict[str, int]) -> dict[str, int]:
    """How many numbers each array has."""
    registers, stores, repetitions = of["n_registers"], of["n_stores"], of["repetitions"]
    wide = (2 + 2 * registers if of["in_order"] else 6 + registers) + stores
    return {
        **dict.fromkeys(("ready", "late"), registers + 1),
        "done": of["window"],
        "drained": of["n_drained"] + repetitions * stores + 1,
        **dict.fromkeys(("before", "written"), stores + 1),
        "history": repetitions * wide,
    }


def _too_many() -> TramplabError:
    room = f"{_PORTS - 1} ports and {_KINDS} different sets of them"
    return TramplabError(f"the model has room for {room}: describe the core with fewer.")
