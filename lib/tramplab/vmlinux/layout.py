"""Laying out what is registered, in a real kernel's own structs: ops, hashes, and entries of hashes."""

from __future__ import annotations

from collections.abc import Mapping

from ..ftrace.layout import bits_of, bucket, pack
from ..ftrace.ops import FL_ENABLED
from .machine import RealMachine

FL_INITIALIZED = 1 << 9


def fields(machine: RealMachine, struct: str, values: Mapping[str, int]) -> bytes:
    """The bytes of a struct with these members set and the rest zero; members that the image has not are left out."""
    layout = machine.opened.struct(struct)
    return pack(layout, {name: value for name, value in values.items() if name in layout.fields})


def hash_of(machine: RealMachine, entries: Mapping[int, int]) -> int:
    """A struct ftrace_hash of functions, address -> direct call's target or 0, as large as the kernel makes one of that many.
    Gives its address."""
    bits = bits_of(len(entries))
    hlist = machine.opened.struct("ftrace_func_entry").fields["hlist"].offset
    table = [0] * (1 << bits)
    for address, direct in sorted(entries.items()):
        at = machine.block(fields(machine, "ftrace_func_entry", {"ip": address, "direct": direct}))
        machine.write_u64(at + hlist, table[bucket(address, bits)])
        table[bucket(address, bits)] = at
    buckets = machine.words(*table)
    return machine.block(fields(machine, "ftrace_hash", {"size_bits": bits, "buckets": buckets, "count": len(entries)}))


def ops(machine: RealMachine, func: int, flags: int, ips: list[int], private: int, **more: int) -> int:
    """A struct ftrace_ops that wants the functions with these rec->ip; gives its address. It has no notrace hash, as one has none
    that nobody asked for."""
    wanted = hash_of(machine, dict.fromkeys(ips, 0))
    hashes = machine.block(fields(machine, "ftrace_ops_hash", {"filter_hash": wanted}))
    values = {"func": func, "saved_func": func, "private": private, "func_hash": hashes}
    values["flags"] = flags | FL_ENABLED | FL_INITIALIZED
    return machine.block(fields(machine, "ftrace_ops", {**values, **more}))


def link(machine: RealMachine, members: list[int]) -> None:
    """Put ops on the list of all ops, in this order, before its end."""
    following = machine.opened.struct("ftrace_ops").fields["next"].offset
    for at, after in zip(members, [*members[1:], machine.list_end], strict=True):
        machine.write_u64(at + following, after)
    machine.write_u64(machine.data("ftrace_ops_list"), members[0] if members else machine.list_end)
