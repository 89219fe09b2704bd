"""The kernel's BPF helpers that the rewriter knows: their numbers (include/uapi/linux/bpf.h), what they take, and what each of them
does with the context, which says whether a light structure can stand for it."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.arguments import whole
from ...base.errors import TramplabError, unknown

#: Kinds of arguments. A number; a map; a key or value in memory that may be read or written; memory that is read or written,
#: and how much; an address that the helper reads on trust, which a program may get from anywhere.
NUMBER, MAP, KEY, VALUE, READ, WRITTEN, SIZE, ADDRESS = "number", "map", "key", "value", "read", "written", "size", "address"
#: Kinds of arguments that are the context: it only says which call this is; its registers are passed on as a pt_regs; or are
#: changed.
IDENTITY, REGISTERS, CHANGED = "identity", "registers", "changed"
CONTEXTS = (IDENTITY, REGISTERS, CHANGED)
#: Bytes of the key and of the value of every map of a program here.
KEY_SIZE, VALUE_SIZE = 8, 64


@dataclass(frozen=True)
class Helper:
    """One helper.

    takes: the kinds of its arguments, r1 first; a size belongs to the memory argument next to it.
    does: what it does with the context or its target, in a few words.
    finds: is its result a map's value, or null?
    """

    number: int
    name: str
    takes: tuple[str, ...]
    does: str = ""
    finds: bool = False

    def sized(self, argument: int) -> int | None:
        """Which argument says how many bytes of this one are read or written; None where that is fixed."""
        kind = self.takes[whole(argument, "argument", 0, len(self.takes) - 1)]
        if kind in (READ, WRITTEN, ADDRESS):
            around = [n for n, t in enumerate(self.takes) if t == SIZE]
            return min(around, key=lambda n: abs(n - argument))
        return None


_HELPERS = (
    Helper(1, "bpf_map_lookup_elem", (MAP, KEY), finds=True),
    Helper(2, "bpf_map_update_elem", (MAP, KEY, VALUE, NUMBER)),
    Helper(4, "bpf_probe_read", (WRITTEN, SIZE, ADDRESS), "copies from it"),
    Helper(5, "bpf_ktime_get_ns", ()),
    Helper(14, "bpf_get_current_pid_tgid", ()),
    Helper(25, "bpf_perf_event_output", (REGISTERS, MAP, NUMBER, READ, SIZE), "puts its registers into perf's sample"),
    Helper(27, "bpf_get_stackid", (REGISTERS, MAP, NUMBER), "walks the stack from its registers"),
    Helper(58, "bpf_override_return", (CHANGED, NUMBER), "changes its instruction pointer and return value"),
    Helper(67, "bpf_get_stack", (REGISTERS, WRITTEN, SIZE, NUMBER), "walks the stack from its registers"),
    Helper(113, "bpf_probe_read_kernel", (WRITTEN, SIZE, ADDRESS), "copies from it"),
    Helper(173, "bpf_get_func_ip", (IDENTITY,)),
    Helper(174, "bpf_get_attach_cookie", (IDENTITY,)),
)
HELPERS = {h.number: h for h in _HELPERS}
_NAMED = {h.name: h for h in _HELPERS}


def named(name: str) -> Helper:
    """The helper of this name; raises TramplabError with near matches."""
    if name not in _NAMED:
        raise unknown("BPF helper", name, _NAMED)
    return _NAMED[name]


def helper(number: int, at: int) -> Helper:
    """The helper of this number, which instruction `at` calls; raises TramplabError."""
    if number not in HELPERS:
        names = ", ".join(_NAMED)
        raise TramplabError(f"instruction {at} calls helper {number}, which the rewriter does not know. Known: {names}.")
    return HELPERS[number]


def name_of(number: int) -> str:
    """The name of the helper of this number as it is written in a call."""
    return HELPERS[number].name if number in HELPERS else str(number)
