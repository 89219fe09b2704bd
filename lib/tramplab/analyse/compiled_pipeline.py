"""The pipeline's model, compiled: what pipeline.c needs of a lowered program, in arrays."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..emulate.compiled import library
from .lower import Lowered, LoweredProgram

SOURCE = Path(__file__).with_name("pipeline.c")
#: Ports of a core, and different sets of them, that there is room for.
_PORTS, _KINDS = 32, 16
#: Cycles that there is room for at first.
_CYCLES = 1 << 13
_ARRAYS = "items missed set ready late done drained before written history used taken later".split()
_NUMBERS = (
    "n_items n_registers n_stores repetitions n_cycles in_order fetch width window buffer per_cycle loads_wait mispredict "
    "late_stage load store alu data took over".split()
)


class _Model(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in _ARRAYS),
        *((name, ctypes.c_int64) for name in _NUMBERS),
        ("kinds", ctypes.c_uint32 * _KINDS),
        *((name, ctypes.c_int64) for name in "n_kinds n_drained full fetched left cycle room".split()),
    ]


#: Items, by their identity, and as the stream has them: most stay the same where a parameter is changed.
_streams: dict[int, tuple[Lowered, bytes]] = {}
_MOST = 1 << 14
#: The last programs' items, and the streams of those: all stay the same where it is one of the pipeline's own parameters.
_whole: dict[int, tuple[tuple[Lowered, ...], bytes]] = {}
_PROGRAMS = 64


def _streamed(items: tuple[Lowered, ...]) -> bytes:
    known = _whole.get(id(items))
    if known is None:
        if len(_whole) >= _PROGRAMS:
            _whole.clear()
        known = _whole[id(items)] = items, b"".join(map(_stream, items))
    return known[1]


def _stream(item: Lowered) -> bytes:
    known = _streams.get(id(item))
    if known is None:
        loads: list[int] = []
        for stores, forward, latency in item.loads:
            loads += (len(stores), *stores, forward, latency)
        made = (
            *(item.slots, item.bubble, item.keeps, item.ports, item.latency, item.load_cycles, item.stores, item.store_cycles),
            *(item.barrier, int(item.atomic), int(item.can_be_late)),
            *(len(item.address), *item.address, len(item.reads), *item.reads),
            *(len(item.writes), *item.writes, len(item.bumps), *item.bumps, len(item.loads), *loads),
        )
        if len(_streams) >= _MOST:
            _streams.clear()
        known = _streams[id(item)] = item, array("i", made).tobytes()
    return known[1]


def cycles(program: LoweredProgram, missed: Sequence[frozenset[int]], in_order: bool) -> float | None:
    """As pipeline.cycles() has it; missed: the steps whose return is mispredicted, of each repetition. None where it cannot be
    built, or a core has more ports, or more different sets of them, than there is room for."""
    lib = library(SOURCE)
    if lib is None or max(program.accesses.values()) >> _PORTS - 1:
        return None
    v, use = program.values, program.accesses
    sets = list(dict.fromkeys(one for one in missed if one))
    flags = [[item.step in one for item in program.items] for one in sets]
    count, registers, repetitions = len(program.items), len(program.numbers), len(missed)
    wide = (2 + 2 * registers if in_order else 6 + registers) + program.stores
    buffer, per_cycle = v.get("store_buffer", 0), v.get("stores_per_cycle", 0)
    before = max(buffer, per_cycle)
    room = _CYCLES
    while True:
        arrays: dict[str, np.ndarray] = {
            "items": np.frombuffer(_streamed(program.items), np.int32),
            "missed": np.array(flags, np.uint8),
            "set": np.array([sets.index(one) if one else -1 for one in missed], np.int32),
            **{name: np.zeros(registers + 1, np.int64) for name in ("ready", "late")},
            "done": np.zeros(v.get("window", 1), np.int64),
            "drained": np.zeros(before + repetitions * program.stores + 1, np.int64),
            **{name: np.zeros(program.stores + 1, np.int64) for name in ("before", "written")},
            "history": np.zeros(repetitions * wide, np.int64),
            "used": np.zeros(room, np.int32),
            "taken": np.zeros(room * _PORTS, np.uint32),
            "later": np.zeros(room * _KINDS, np.int32),
        }
        model = _Model(
            **{name: values.ctypes.data for name, values in arrays.items()},
            n_items=count,
            n_registers=registers,
            n_stores=program.stores,
            repetitions=repetitions,
            n_cycles=room,
            in_order=in_order,
            fetch=v["width"] if in_order else v["fetch"],
            width=v["width"],
            window=v.get("window", 1),
            buffer=buffer,
            per_cycle=per_cycle,
            loads_wait=v.get("loads_wait", 0),
            mispredict=v["mispredict"],
            late_stage=v.get("late_stage", 0),
            load=use["load"],
            store=use["store"],
            alu=use.get("alu", 0),
            data=use.get("store_data", 0),
            n_drained=before,
        )
        full = lib.tramplab_pipeline(ctypes.byref(model))
        if not full:
            return model.took / model.over
        if full != 1:
            return None
        room *= 4
