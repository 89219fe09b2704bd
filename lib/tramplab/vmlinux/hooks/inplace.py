"""Structs and variables that the kernel has already: read and changed where they lie, until the machine is reset."""

from __future__ import annotations

from collections.abc import Mapping

from ...base.errors import TramplabError
from ...ftrace.ops import FL_ENABLED
from ..run import layout
from ..run.machine import RealMachine
from .hook import Absent


def get(machine: RealMachine, struct: str, at: int, member: str) -> int:
    """A member of a struct that lies at an address, as a number."""
    field = machine.opened.struct(struct).fields[member]
    return int.from_bytes(machine.machine.read(at + field.offset, field.size), "little")


def put(machine: RealMachine, struct: str, at: int, values: Mapping[str, int]) -> None:
    """Set these members of a struct that lies at an address; those that the image has not are left out."""
    fields = machine.opened.struct(struct).fields
    for name, value in values.items():
        if name in fields:
            size = fields[name].size
            machine.write(at + fields[name].offset, (value & (1 << 8 * size) - 1).to_bytes(size, "little"))


def member(machine: RealMachine, struct: str, at: int, name: str) -> int:
    """The address of a member."""
    return at + machine.opened.struct(struct).fields[name].offset


def variable(machine: RealMachine, name: str) -> int:
    """The address of a variable; raises Absent where the image does not name it and it cannot be found from code."""
    try:
        return machine.data(name)
    except TramplabError as e:
        raise Absent(str(e)) from None


def note(machine: RealMachine, values: Mapping[str, tuple[int, int]]) -> None:
    """Set variables, name -> (bytes, value), that registration sets as well, where the image names them: no call reads them."""
    for name, (size, value) in values.items():
        if machine.opened.has(name):
            machine.write(machine.address(name), value.to_bytes(size, "little"))


def start(machine: RealMachine, ops: int, ips: list[int], notrace: int = 0) -> int:
    """An ftrace_ops of the kernel's own as register_ftrace_function() leaves it; gives its flags. It is not yet on the list, and no
    site calls it. ips: of the functions it wants (rec->ip). notrace: where a hash of those left out lies, if it has none."""
    flags, hashes = (get(machine, "ftrace_ops", ops, name) for name in ("flags", "func_hash"))
    if not flags & layout.FL_INITIALIZED:
        hashes = member(machine, "ftrace_ops", ops, "local_hash")
        empty_list(machine, "ftrace_ops", ops, "subop_list")
    flags |= FL_ENABLED | layout.FL_INITIALIZED
    func = get(machine, "ftrace_ops", ops, "func")
    put(machine, "ftrace_ops", ops, {"flags": flags, "func_hash": hashes, "saved_func": func})
    kept = get(machine, "ftrace_ops_hash", hashes, "notrace_hash")
    filtered = layout.hash_of(machine, dict.fromkeys(ips, 0))
    put(machine, "ftrace_ops_hash", hashes, {"filter_hash": filtered, "notrace_hash": kept or notrace})
    return layout.flags_of(machine, flags)


def empty_list(machine: RealMachine, struct: str, at: int, name: str) -> None:
    """Make a list_head empty, if the struct has that member."""
    if machine.opened.types.has(struct, name):
        fill_list(machine, member(machine, struct, at, name))


def fill_list(machine: RealMachine, head: int, *entries: int) -> None:
    """Put these entries on a list_head, in this order."""
    every = [head, *entries]
    for before, at, after in zip([every[-1], *every[:-1]], every, [*entries, head], strict=True):
        machine.write(at, after.to_bytes(8, "little") + before.to_bytes(8, "little"))


def add_node(machine: RealMachine, head: int, node: int) -> None:
    """Put a node on a hlist_head, before those that are on it."""
    first = machine.machine.read_u64(head)
    machine.write(node, first.to_bytes(8, "little") + head.to_bytes(8, "little"))
    if first:
        machine.write_u64(first + 8, node)
    machine.write_u64(head, node)
