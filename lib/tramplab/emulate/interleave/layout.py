"""The structs of scheduler.c."""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_uint8, c_uint64, c_void_p


def _fields(**kinds: str) -> list[tuple[str, type]]:
    """The members of a struct, (name, type) each, from rows of names by type; a type that comes again has underlines behind it."""
    types = {"u64": c_uint64, "i64": c_int64, "i32": c_int32, "u8": c_uint8, "at": c_void_p}
    return [(name, types[kind.rstrip("_")]) for kind, names in kinds.items() for name in names.split()]


class Place(ctypes.Structure):
    """One instruction of the scheduled code."""

    _fields_ = _fields(i32="offset", u8="kind size length base value status")


class Cpu(ctypes.Structure):
    """One CPU: what it counted and what it is doing."""

    _fields_ = _fields(
        u64="random age reserved pops pushes misses avoidable attempts succeeded broken",
        u64_="pop_issued push_issued miss_issued longest issued began",
        i64="dried",
        i32="held wanted popping parked",
    )


class Area(ctypes.Structure):
    """A stretch of memory and the CPU that it belongs to; -1 is shared."""

    _fields_ = _fields(u64="low high", i64="owner")


class Lab(ctypes.Structure):
    """The state of a whole run."""

    _fields_ = _fields(
        u64="base length pop push return_to",
        at="places cpus clocks registers slots",
        u64_="nr_cpus",
        at_="ids",
        u64__="nr_ids",
        i32="pc sp link argument result flags",
        u64___="pool depth nr_nodes nr_areas granule",
        at__="nodes owners stacks areas",
        i64="sure",
        u64____="dried coin stall_bits stall_ticks slice between every target done limit issued switches where",
        i32_="current compared open trouble",
        at___="read_batch write_batch read_one write_one write_memory stop",
    )
