"""The check of abi.py with BPF programs on every function that can have them, one trampoline each.

What a program sees is promised too: the words of the function's arguments, their number, its own cookie and, behind the
function, what it returned.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from support.abi import abi, abi_calls, abi_places
from tramplab import Ops
from tramplab.ftrace.releases import parse
from tramplab.isa import get
from tramplab.trampolines.bpf import Bpf

#: Functions that return a struct cannot have programs, and since when an ISA's trampolines take structs, words on the stack, and
#: structs there.
FUNCTIONS = tuple(f for f in abi_calls.FUNCTIONS if "return" not in f)
STRUCTS = ("struct_arg", "struct_after_five", "struct_after_seven", "uneven_ninth")
SINCE = {"x86_64": ("v6.1", "v6.6", "v6.6"), "arm64": ("v6.5", "v6.16", "v6.17"), "riscv64": ("v6.8", "v6.11", "v6.11")}
#: hook -> the numbers of fentry, fmod_ret and fexit programs, and whether an ops is on each function besides.
HOOKS: dict[str, tuple[tuple[int, int, int], bool]] = {
    "bpf-fentry": ((1, 0, 0), False),
    "bpf-fexit": ((0, 0, 1), False),
    "bpf-fmodret": ((0, 1, 0), False),
    "bpf-all": ((2, 1, 3), False),
    "bpf-fentry+ops": ((1, 0, 0), True),
    "bpf-all+ops": ((1, 2, 1), True),
}


def taken(place: abi_places.Place) -> tuple[str, ...]:
    """The functions that can have programs in a release, by hand."""
    structs, stack, both = (parse(place.release) >= parse(since) for since in SINCE[place.isa])

    def takes(name: str) -> bool:
        stacked = any(isinstance(p, int) for p in abi_calls.places(get(place.isa), name))
        return (structs or name not in STRUCTS) and (stack or not stacked) and (both or not stacked or name not in STRUCTS)

    return tuple(filter(takes, FUNCTIONS))


def _hooked(place: abi_places.Place, level: str) -> tuple[str, ...]:
    """Those that get programs: all that can, or the one for which there is room where arm64's site can jump to."""
    return ("eight_args",) if level == "jump" else taken(place)


@contextmanager
def hooked(lab: abi.Lab, hook: str) -> Iterator[BpfHooked]:
    """Attach a hook's programs to every function, and an ops to all of them where the hook has one; behind a colon, Bpf's level."""
    hook, _, level = hook.partition(":")
    (fentry, fmod_ret, fexit), shared = HOOKS[hook]
    functions = _hooked(lab.place, level)
    programs = {"fentry": fentry, "fexit": fexit, "fmod_ret": fmod_ret}
    requests = [Bpf(**programs, observe=True, level=level, kaslr=level != "jump", filter=(f,)) for f in functions]
    others = [Ops(filter=functions)] if shared else []
    with (
        lab.kernel.attached(None, *requests, *others) as registered,
        BpfHooked(lab, hook, registered, functions).watched() as h,
    ):
        yield h


class BpfHooked(abi.Hooked):
    """A lab with programs on its functions."""

    def __init__(self, lab: abi.Lab, hook: str, registered: tuple, functions: tuple[str, ...] = ()) -> None:
        super().__init__(lab, hook, registered)
        self.kinds, image = HOOKS[hook][0], self.kernel.image
        self._with_programs = functions or taken(lab.place)
        self._observed, self._count = image.address("lab_bpf_seen"), image.address("lab_bpf_seen_count")
        self._words = image.struct("lab_bpf_seen").size // 8

    @property
    def callbacks(self) -> set[str]:
        return super().callbacks | {"lab_bpf_observe_clobber"}

    def _passed(self, function: str) -> tuple[str, ...]:
        """The argument registers of this very function; where its trampoline goes on to it also what belongs to the caller."""
        if function not in self._with_programs:
            return super()._passed(function)
        carry = [p for p in abi_calls.places(self.isa, function) if isinstance(p, str)]
        if self.kinds[1] or self.kinds[2]:
            return tuple(carry)
        return (*carry, *self.isa.callee_saved, self.isa.sp, *((self.isa.link,) if self.isa.link else ()))

    def _expected(self, state: abi.State) -> list[dict[str, object]]:
        call = state.call
        inner = [(n, a, abi_calls.weigh(*a)) for n, a in (*call.nested, *([call.jumps] if call.jumps else ()))]
        rows = [row for n, a, value in inner for row in self._around(n, a, value, [])]
        return self._around(call.name, tuple(call.shown(self.isa)), call.values[0] if call.values else 0, rows)

    def _around(self, name: str, args: tuple[int, ...], value: int, inside: list) -> list[dict[str, object]]:
        """What the programs of one call see, before and after what happens inside."""
        if name not in self._with_programs:
            return inside
        fentry, fmod_ret, _ = self.kinds
        seen = [{"cookie": i, "args": list(args)} for i in range(1, sum(self.kinds) + 1)]
        for row in seen[fentry : fentry + fmod_ret]:
            row["result"] = 0
        for row in seen[fentry + fmod_ret :]:
            row["result"] = value
        return [*seen[: fentry + fmod_ret], *inside, *seen[fentry + fmod_ret :]]

    def _compare(self, expected: list[dict[str, object]], observed: list[tuple[int, ...]]) -> None:
        assert len(observed) == len(expected), f"{len(observed)} programs ran, not {len(expected)}"
        for row, (cookie, count, *words) in zip(expected, observed, strict=False):
            args = row["args"]
            assert (cookie, count) == (row["cookie"], len(args)), f"program {cookie} ran with {count} words, not {row}"
            assert words[:count] == args, f"program {cookie} saw {words[:count]}, not {args}"
            assert words[count] == row.get("result", words[count]), f"program {cookie} saw the result {words[count]:#x}"


def verdicts(lab: abi.Lab, values: dict[int, int]) -> None:
    """Let the fmod_ret programs with these cookies return these values, all others 0."""
    symbol = lab.kernel.image.symbol("lab_bpf_verdicts")
    words = [values.get(i, 0) & abi_calls.MASK for i in range(symbol.size // 8)]
    lab.machine.write(symbol.address, struct.pack(f"<{len(words)}Q", *words))
