"""What is explored: a function, how it is called, what may be called on its behalf, and the steps that change it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..emulate.machine import Machine
from ..emulate.traps import Vector
from ..ftrace.steps import Step


@dataclass(frozen=True)
class FixUp:
    """A step that no kernel takes: every thread that is to go on at `at` goes on at `to` instead.

    why: for the reader.
    every: in all sets of registers that a thread has saved, which are several where exceptions nest, or only in the newest?
    """

    at: int
    to: int
    why: str
    every: bool = True


#: A step of a plan here.
Planned = Step | FixUp


@dataclass(frozen=True)
class Attachment:
    """The lifetime of one ops in a plan.

    name: for the reader.
    address: of its struct.
    on: the number of steps after which it is attached, 0 if it was before the plan, None if it never is.
    off: the number of steps after which its removal begins; None if it is not removed.
    gone: the number of steps after which it must not be called any more.
    """

    name: str
    address: int
    on: int | None = 0
    off: int | None = None
    gone: int | None = None


@dataclass(frozen=True)
class Call:
    """How threads call the function: registers at the start, words on the stack, and what it must return."""

    registers: Mapping[str, int]
    stack: tuple[int, ...]
    value: int


@dataclass(frozen=True)
class Subject:
    """What is explored: a function, how it is called, and the plan that changes it.

    machine: booted and as it is before the plan, with the meter "record"; exploring leaves it so.
    entry, end: the function's first byte and the first byte after it.
    body: the first byte after its patch site.
    ip: the ip that callbacks are given.
    steps: the plan.
    freed: step number -> (address, size) that the step frees.
    targets: addresses that its site may jump to.
    made: (address, size, name) of generated code, which is in no image.
    callbacks: first byte -> addresses of the ops with which it may be called.
    direct: first byte of a direct call's target -> the address of its ops.
    ops: when each ops is attached.
    private: (address, size) that only one thread writes, apart from its stack, and restores.
    scratch: (address, size) of memory that a CPU writes with interrupts off and does not read after that.
    below: bytes below the stack pointer that outlive an instruction.
    preemptible: may a thread be preempted inside the function and the trampolines?
    vector: the address that breakpoints jump to, None if they are not taken.
    skips: address of a breakpoint -> where its handler lets the thread go on; without a vector it does so at once.
    nests: how many exceptions may interrupt a call at the site, one within the other, each of which calls the function again.
    sleeps: may the function sleep? Then Tasks RCU does not wait for a thread in it, however it came there.
    counter: address of a count that is not zero while a thread holds a reference, None for none.
    kernel: whose text it is, "" for the lab's.
    """

    machine: Machine
    entry: int
    end: int
    body: int
    ip: int
    call: Call
    steps: Sequence[Planned]
    freed: Mapping[int, tuple[int, int]]
    targets: frozenset[int]
    made: Sequence[tuple[int, int, str]]
    callbacks: Mapping[int, frozenset[int]]
    ops: Sequence[Attachment]
    private: Sequence[tuple[int, int]]
    direct: Mapping[int, int] = field(default_factory=dict)
    scratch: Sequence[tuple[int, int]] = ()
    below: int = 0
    preemptible: bool = True
    vector: Vector | None = None
    skips: Mapping[int, int] = field(default_factory=dict)
    nests: int = 0
    sleeps: bool = False
    counter: int | None = None
    kernel: str = ""

    def name_of(self, address: int) -> str:
        """symbol+offset, or the bare address."""
        for start, size, name in self.made:
            if start <= address < start + size:
                return f"{name}+{address - start:#x}" if address > start else name
        return self.machine.image.where(address) or f"{address:#x}"

    def ops_name(self, address: int) -> str:
        """The name of the ops at an address."""
        return next((o.name for o in self.ops if o.address == address), self.name_of(address))


def replanned(subject: Subject, instead: Callable[[int], Sequence[Planned]]) -> Subject:
    """A subject with other steps in its plan: instead(number) gives those in place of a step, often that step. The numbers of steps
    in `ops` and `freed` are adjusted."""
    plan: list[Planned] = []
    counted = [0]  # how many steps the first so many became
    for number in range(len(subject.steps)):
        plan += instead(number)
        counted.append(len(plan))

    def moved(number: int | None) -> int | None:
        return None if number is None else counted[number]

    ops = [Attachment(o.name, o.address, moved(o.on), moved(o.off), moved(o.gone)) for o in subject.ops]
    freed = {counted[number + 1] - 1: area for number, area in subject.freed.items()}
    return replace(subject, steps=plan, ops=ops, freed=freed)


def overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Do two stretches, (address, size), have a byte in common?"""
    return one[0] < other[0] + other[1] and other[0] < one[0] + one[1]
