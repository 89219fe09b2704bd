"""kprobes at one address as register_kprobe() leaves them: one in the table of kprobes, or several on the list of one there, which
the kernel makes to stand for them (an aggregated kprobe)."""

from __future__ import annotations

from collections.abc import Mapping

from ...ftrace.layout import bucket
from ..run.machine import RealMachine
from . import inplace
from .hook import require
from .inplace import member, put, variable

#: KPROBE_HASH_BITS (kernel/kprobes.c).
_TABLE_BITS = 6
#: The handler of an aggregated kprobe.
_AGGREGATE = "aggr_pre_handler"


def register(machine: RealMachine, ip: int, probes: Mapping[int, int], values: Mapping[str, int]) -> int:
    """Put kprobes on an address: struct kprobe, zero but for what its owner has set -> its handler, from the newest on. values:
    further members of each. Gives the kprobe that is found there, which is the one that has to be armed."""
    for probe, pre in probes.items():
        put(machine, "kprobe", probe, {**values, "addr": ip, "pre_handler": pre})
    found, *several = probes
    if several:
        require(machine, _AGGREGATE)
        found = machine.block(bytes(machine.opened.struct("kprobe").size))
        put(machine, "kprobe", found, {**values, "addr": ip, "pre_handler": machine.address(_AGGREGATE)})
        inplace.fill_list(machine, *(member(machine, "kprobe", at, "list") for at in (found, *probes)))
    else:
        inplace.empty_list(machine, "kprobe", found, "list")
    head = variable(machine, "kprobe_table") + 8 * bucket(ip, _TABLE_BITS)
    inplace.add_node(machine, head, member(machine, "kprobe", found, "hlist"))
    return found
