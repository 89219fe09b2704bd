"""Laying out what is registered, in a real kernel's own structs: ops, hashes, and entries of hashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...ftrace.layout import bits_of, bucket, pack
from ...ftrace.ops import FL_ENABLED, FL_RECURSION
from ...ftrace.steps import Write, block, pointer
from ..open.debuginfo.types import Types
from .machine import RealMachine

#: FTRACE_OPS_FL_* that only a kernel's own memory needs.
FL_INITIALIZED, FL_ALLOC_TRAMP, FL_SUBOP = 1 << 6, 1 << 11, 1 << 18


def fields(machine: RealMachine, struct: str, values: Mapping[str, int]) -> bytes:
    """The bytes of a struct with these members set and the rest zero; members that the image has not are left out."""
    layout = machine.opened.struct(struct)
    return pack(layout, {name: value for name, value in values.items() if name in layout.fields})


def hash_of(machine: RealMachine, entries: Mapping[int, int]) -> int:
    """A struct ftrace_hash of functions, address -> direct call's target or 0, as large as the kernel makes one of that many.
    Gives its address."""
    address, writes = hash_plan(machine, entries, machine.room)
    for write in writes:
        machine.machine.write(write.address, write.data)
    return address


def hash_plan(machine: RealMachine, entries: Mapping[int, int], take: Callable[[int], int]) -> tuple[int, list[Write]]:
    """A struct ftrace_hash as hash_of() makes it: its address, and the writes that make it in the room that take(bytes) gives."""
    bits, entry = bits_of(len(entries)), machine.opened.struct("ftrace_func_entry")
    hlist = entry.fields["hlist"].offset
    table, writes = [0] * (1 << bits), []
    for address, direct in sorted(entries.items()):
        at = take(entry.size)
        data = bytearray(fields(machine, "ftrace_func_entry", {"ip": address, "direct": direct}))
        data[hlist : hlist + 8] = pointer(table[bucket(address, bits)])
        table[bucket(address, bits)] = at
        writes.append(block(at, bytes(data), "an entry of a hash"))
    buckets = take(8 << bits)
    writes.append(block(buckets, b"".join(map(pointer, table)), "its buckets"))
    members = {"size_bits": bits, "buckets": buckets, "count": len(entries)}
    made = take(machine.opened.struct("ftrace_hash").size)
    return made, [*writes, block(made, fields(machine, "ftrace_hash", members), "its struct ftrace_hash")]


def turned(types: Types) -> int:
    """The flags of a struct ftrace_ops that mean the opposite of today's: up to v5.10 that of FTRACE_OPS_FL_RECURSION, whose bit is
    FTRACE_OPS_FL_RECURSION_SAFE there."""
    return 0 if types.enumerator("FTRACE_OPS_FL_RECURSION_SAFE") is None else FL_RECURSION


def flags_of(machine: RealMachine, flags: int) -> int:
    """The flags of a struct ftrace_ops as this kernel keeps them, from those of today, and the other way round."""
    return flags ^ turned(machine.opened.types)


def members_of(machine: RealMachine, func: int, flags: int, hashes: int, private: int) -> dict[str, int]:
    """The members of a struct ftrace_ops of ours: name -> value."""
    kept = flags_of(machine, flags | FL_INITIALIZED)
    return {"func": func, "saved_func": func, "private": private, "func_hash": hashes, "flags": kept}


def ops(machine: RealMachine, func: int, flags: int, ips: list[int], private: int, **more: int) -> int:
    """A struct ftrace_ops that wants the functions with these rec->ip; gives its address. It has no notrace hash, as one has none
    that nobody asked for."""
    wanted = hash_of(machine, dict.fromkeys(ips, 0))
    hashes = machine.block(fields(machine, "ftrace_ops_hash", {"filter_hash": wanted}))
    members = members_of(machine, func, flags | FL_ENABLED, hashes, private)
    return machine.block(fields(machine, "ftrace_ops", {**members, **more}))


def link(machine: RealMachine, members: list[int]) -> None:
    """Put ops on the list of all ops, in this order, before its end."""
    following = machine.opened.struct("ftrace_ops").fields["next"].offset
    for at, after in zip(members, [*members[1:], machine.list_end], strict=True):
        machine.write_u64(at + following, after)
    machine.write_u64(machine.data("ftrace_ops_list"), members[0] if members else machine.list_end)
