"""Every consumer on every structure: is what it concludes what it would have concluded from a full set of registers?"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...base.errors import TramplabError
from ...emulate.image import Image
from ...lab.kernel import Kernel
from ..structures import fields
from ..structures.classify import CONSTANT, OUTSIDE
from ..structures.classify import GARBAGE as STALE
from ..structures.fields import PT_REGS, WORD
from ..structures.frames import Frame, Seen, classified, watched
from ..structures.providers import Provider
from ..structures.registers import register_of
from ..structures.views import View, given
from .consumers import CONSUMERS, STARTS, Consumer, Reading, read

#: Outcomes: the same conclusion as from a full set; another one; one that depends on stale memory; not asked of this structure.
RIGHT, WRONG, GARBAGE, NOT_ASKED = OUTCOMES = ("right", "wrong", "garbage", "not asked")
#: The consumer that gives out every slot, and the one that says whether a full set is there.
_EVERY, FULL = "register", "full"
#: Words above the stack pointer that are asked for; of arguments those are that registers carry.
_STACK_WORDS = 2
#: A word that no register has, for the parts that a full set does not fill.
_NO_CALL = -1

Answer = tuple[int | None, ...]


@dataclass(frozen=True)
class Cell:
    """One consumer on one view.

    outcome: one of OUTCOMES.
    said, should: one answer that it gave, and the right one: of the first sample and number where they differ, else of the first.
        If the answer depends on stale memory but happens to agree in every sample: an answer from a run with different stale
        memory. None where it ended with a fault.
    fields: that it read.
    """

    view: View
    consumer: Consumer
    outcome: str
    said: Answer = ()
    should: Answer = ()
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Matrix:
    """One view with all its consumers, in order. frame: what it holds."""

    view: View
    frame: Frame
    cells: tuple[Cell, ...]


def matrix(kernel: Kernel, view: View) -> Matrix:
    """All consumers on one view."""
    return of_samples(kernel, view, watched(kernel, view.provider))


def matrices(kernel: Kernel, chosen: Iterable[View]) -> list[Matrix]:
    """The matrices of several views, in order; the calls of a provider are made once for all its views."""
    seen: dict[Provider, Mapping[tuple[int, int], Seen]] = {}
    all_matrices = []
    for view in chosen:
        if view.provider not in seen:
            seen[view.provider] = watched(kernel, view.provider)
        all_matrices.append(of_samples(kernel, view, seen[view.provider]))
    return all_matrices


def of_samples(kernel: Kernel, view: View, samples: Mapping[tuple[int, int], Seen]) -> Matrix:
    """All consumers on one view, from calls that were watched already, of two seeds and two poisons or more."""
    place = Place(kernel, view)
    made = place.made(samples)
    frame = _frame(kernel, view, made)
    free = _free(fields.places(kernel.image, view.kind), [data for _, data, _ in made.values()])
    cells = (_cell(place, frame, c, samples, free) for c in CONSUMERS.values() if c.name != _EVERY)
    return Matrix(view, frame, tuple(cells))


def view_frame(kernel: Kernel, view: View) -> Frame:
    """The structure that a view's consumers are given, field by field."""
    return _frame(kernel, view, Place(kernel, view).made(watched(kernel, view.provider)))


def _frame(kernel: Kernel, view: View, made: Mapping[tuple[int, int], tuple[int, bytes, Mapping[str, int]]]) -> Frame:
    return classified(kernel.image, kernel.machine.stack, str(kernel), view.name, view.kind, made)


def asked(view: View, consumer: Consumer) -> bool:
    """Is a consumer asked of a view? Arguments are asked for at the entry only, and the result at the return."""
    if view.kind not in consumer.kinds:
        return False
    return consumer.name != ("argument" if view.provider.at_return else "return-value")


def _free(places: Sequence[fields.Place], made: Sequence[bytes]) -> dict[str, int]:
    """Field -> its bits that differ between samples: garbage; the bits that agree were written by the provider."""
    free_bits = {}
    for p in places:
        values = [p.of(data) for data in made]
        free_bits[p.name] = functools.reduce(operator.or_, (value ^ values[0] for value in values))
    return free_bits


def _moved(place: Place, first: Reading, seen: Seen, number: int | None, stale: Mapping[str, int]) -> tuple[Answer, ...]:
    """A consumer's answers, if they change with bits that nobody wrote, or one ends with a fault; else none. The bits are tried as
    they were found, all 0, all 1, and as in each field that is read besides, which may be compared with them. stale: field -> its
    bits that nobody wrote."""
    kernel, kind = place.kernel, place.view.kind
    at = place.restored(seen)
    others = [_value(kernel, kind, at, field) for field in first.fields if field not in stale]
    answers: dict[Answer, None] = {}
    for bits in (None, 0, -1, *others):
        place.restored(seen)
        for name, free in stale.items() if bits is not None else ():
            field = fields.named(kernel.image, kind, name)
            value = _value(kernel, kind, at, name) & ~free | (bits or 0) & free
            kernel.machine.write(at + field.offset, value.to_bytes(field.size, "little"))
        answers[_said(kernel, kind, read(kernel, first.consumer.name, kind, at, number), at)] = None
    return tuple(answers) if len(answers) > 1 or any(None in answer for answer in answers) else ()


def _cell(
    place: Place, frame: Frame, c: Consumer, samples: Mapping[tuple[int, int], Seen], free: Mapping[str, int]
) -> Cell:
    view, kernel = place.view, place.kernel
    if not asked(view, c):
        return Cell(view, c, NOT_ASKED)
    if c.name == FULL:
        return _whether_full(place, frame, c, next(iter(samples.values())))
    pairs: list[tuple[Answer, Answer]] = []
    moved: list[tuple[Answer, Answer]] = []
    touched: dict[str, None] = {}
    for seen in samples.values():
        for number in _numbers(kernel, c):
            place.put_back(seen)
            should = read(kernel, c.name, PT_REGS, place.full, number)
            if not should.fields:
                return Cell(view, c, NOT_ASKED)  # there is no such thing on this ISA
            wanted = _said(kernel, PT_REGS, should, place.full)
            at = place.restored(seen)
            reading = read(kernel, c.name, view.kind, at, number)
            pairs.append((_said(kernel, view.kind, reading, at), wanted))
            touched |= dict.fromkeys(reading.fields)
            stale = [field for field in reading.fields if frame.slots[field].kind == STALE]
            if stale and not moved:
                answers = _moved(place, reading, seen, number, {field: free[field] for field in stale})
                moved = [(answer, wanted) for answer in answers]
    same = functools.partial(_same_start, place.taken) if c.name == "callchain" else tuple.__eq__
    # of a callchain that may as well start elsewhere, where that depends on garbage, another start is shown
    alike = (same, tuple.__eq__) if moved else (same,)
    said, should_be = next((pair for one in alike for pair in (*pairs, *moved) if not one(*pair)), pairs[0])
    outcome = GARBAGE if moved else RIGHT if all(same(*pair) for pair in pairs) else WRONG
    return Cell(view, c, outcome, said, should_be, tuple(touched))


def _whether_full(place: Place, frame: Frame, c: Consumer, seen: Seen) -> Cell:
    """The cell of the consumer that says whether a full set is there: is a pt_regs given out just where each register is in it? The
    answers are 1 for given out, else 0."""
    registers = [slot for name, slot in frame.slots.items() if register_of(place.kernel.isa, name)]
    full = frame.struct == PT_REGS and not any(slot.kind in (STALE, CONSTANT, OUTSIDE) for slot in registers)
    reading = read(place.kernel, c.name, place.view.kind, place.restored(seen))
    given_out = bool(reading.answer)
    return Cell(place.view, c, RIGHT if given_out == full else WRONG, (int(given_out),), (int(full),), reading.fields)


def _same_start(taken: int, said: Answer, should: Answer) -> bool:
    """Does a callchain start in the kernel, at the true place as far as it says where? What it does not take from the structure is
    0. Where it starts at itself, the stack pointer tells from which frame on it counts, and so does any place in the frame with the
    structure, of `taken` bytes: v6.18's return_to_handler told its own, which made no difference (8bc11700e0d2)."""
    start, pairs = STARTS[said[0] or 0], list(zip(said[1:], should[1:], strict=True))
    if start == "here":
        return all(not one or (other is not None and 0 <= other - one <= taken) for one, other in pairs)
    return start != "nowhere" and all(one in (0, other) for one, other in pairs)


def _said(kernel: Kernel, kind: str, reading: Reading, at: int) -> Answer:
    """A consumer's answer, followed by where a callchain starts, and by the fields that it wrote of the structure at an address."""
    return (reading.answer, *reading.start, *(_value(kernel, kind, at, field) for field in sorted(reading.wrote)))


def _value(kernel: Kernel, kind: str, at: int, name: str) -> int:
    field = fields.named(kernel.image, kind, name)
    return int.from_bytes(kernel.machine.read(at + field.offset, field.size), "little")


def _numbers(kernel: Kernel, c: Consumer) -> list[int | None]:
    if c.name == "argument":
        return list(range(len(kernel.isa.args)))
    return list(range(_STACK_WORDS)) if c.name == "stack-word" else [None]


class Place:
    """Memory in which a view's consumers are run. full: address of a full set of registers."""

    def __init__(self, kernel: Kernel, view: View) -> None:
        self.kernel, self.view = kernel, view
        self._size = kernel.image.struct(PT_REGS).size
        self.taken = self._size + WORD  # what a trampoline takes of the stack for it, with the word that a return took
        self.full, self._room = (kernel.memory(*[0] * (self._size // WORD)) for _ in range(2))
        self._full_sets: dict[tuple[tuple[str, int], ...], bytes] = {}  # truth -> its full set, which is put back again and again

    def made(self, samples: Mapping[tuple[int, int], Seen]) -> dict[tuple[int, int], tuple[int, bytes, Mapping[str, int]]]:
        """Sample -> the address of the structure that consumers are given, its bytes, and the truth."""
        size, structures = self.kernel.image.struct(self.view.kind).size, {}
        for sample, seen in samples.items():
            at = self.restored(seen)
            structures[sample] = at, self.kernel.machine.read(at, size), seen.truth
        return structures

    def restored(self, seen: Seen) -> int:
        """Do put_back(); returns the address of what the view's consumers are given."""
        self.put_back(seen)
        return given(self.kernel, self.view, seen, self._room)

    def put_back(self, seen: Seen) -> None:
        """Make all as it was before anything was made of it: the stack, with what lies on it; a full set of the true registers;
        room for one that is made."""
        machine, truth = self.kernel.machine, tuple(seen.truth.items())
        if truth not in self._full_sets:
            self._full_sets[truth] = full_set(self.kernel.image, seen.truth)
        machine.write(machine.stack.address, seen.stack)
        if not machine.stack.address <= seen.address < machine.stack.end:
            machine.write(seen.address, seen.data)
        machine.write(self._room, bytes(self._size))
        machine.write(self.full, self._full_sets[truth])


def full_set(image: Image, truth: Mapping[str, int]) -> bytes:
    """A pt_regs with all registers as they were; what is no register's is 0, and no system call."""
    data = bytearray(image.struct(PT_REGS).size)
    for place in fields.places(image, PT_REGS):
        register = register_of(image.isa, place.name)
        if register and register not in truth:
            raise TramplabError(f"truth has no {register}: a value of each register makes a full set.")
        value = truth[register] if register else _NO_CALL if place.name.startswith("orig") else 0
        data[place.offset : place.offset + place.size] = (value & (1 << 8 * place.size) - 1).to_bytes(place.size, "little")
    return bytes(data)
