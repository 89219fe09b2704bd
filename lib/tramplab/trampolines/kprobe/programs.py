"""A BPF program on a kprobe or kretprobe: the program, and the array of the trace event that it is in."""

from __future__ import annotations

from collections.abc import Callable

from ...base.errors import TramplabError
from ...ftrace.layout import fields
from ...ftrace.steps import Step, block
from ..guest import Guest
from .request import Kprobe

#: Hands out so many bytes of the guest's memory.
Take = Callable[[int], int]
#: TP_FLAG_PROFILE of kernel/trace/trace_probe.h and of guest/include/kprobe.h: perf has opened the event.
_PROFILE = 2
_ITEM, _CALL, _EVENT = "bpf_prog_array_item", "trace_event_call", "trace_probe_event"
#: The struct of a trace event's probe, and the struct that is its first member.
STRUCT = "trace_kprobe"


def programs(guest: Guest, take: Take, request: Kprobe) -> tuple[dict[str, int], list[int], list[Step]]:
    """Members of struct trace_kprobe beside the kprobe, the number of the program's counter, and the steps that make it. Raises
    TramplabError where there is not enough memory; the counter is given back then."""
    image = guest.image
    code = image.address("lab_bpf_kprobe_observe" if request.observe else "lab_bpf_count")
    counters = guest.counters.take(1)
    try:
        prog = take(image.struct("bpf_prog").size)
        item = fields(image, _ITEM, {"prog": prog, "bpf_cookie": 1})
        array, event = take(2 * len(item)), take(image.struct(_EVENT).size)
    except TramplabError:
        for number in counters:
            guest.counters.give(number)
        raise
    steps: list[Step] = [
        block(prog, fields(image, "bpf_prog", {"active": guest.counters.offset(counters[0]), "bpf_func": code}), "a BPF program"),
        block(array, item.ljust(2 * len(item), b"\0"), "the programs of the event, and their end"),
        block(event, fields(image, _EVENT, {"flags": _PROFILE}), "the event"),
        block(event + image.struct(_EVENT).fields["call"].offset, fields(image, _CALL, {"prog_array": array}), "its programs"),
    ]
    return {"nhit": image.struct("lab_pcpu").fields["kprobe_nhit"].offset, "event": event}, counters, steps
