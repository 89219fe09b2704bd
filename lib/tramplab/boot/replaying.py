"""A replay carried out: CPU 1 held and let go at the stub of a booted kernel, and what came of it."""

from __future__ import annotations

import re
import socket
from collections.abc import Collection
from contextlib import closing
from typing import Annotated

from msgspec import Meta

from ..base.entries import Entry, Natural, Text
from ..base.errors import TramplabError
from ..emulate import decode
from ..vmlinux.open.unpacking.payload import bootable
from ..vmlinux.run.machine import RealMachine
from . import plan, protocol, qemu, replays
from .gdb import Stub
from .replays import BEGINS, HAS, Came, Replay
from .run import How

#: ISA -> the numbers that GDB has for the registers of the ops that is passed, and of pc.
_REGISTERS = {"x86_64": (3, 16), "arm64": (2, 32), "riscv64": (12, 32)}
_LIST = "arch_ftrace_ops_list_func"
_CALLBACKS = ("function_trace_call", "stack_trace_call", "ftrace_stub", _LIST)
_OOPS = "oops_exit"
#: What a kernel says of an oops: the reason, and where.
_SAID = re.compile(r"Unable to handle kernel.*|BUG: .*|(pc|RIP|epc) ?: .*")
#: CPU 0 goes on for so many seconds before CPU 1 takes the interrupts that came for it, and so often before it is taken to wait.
_TURN, _TURNS = 0.05, 200
Address = Annotated[str, Meta(pattern="^0x[0-9a-f]{1,16}$")]
_ARRIVES = 120.0  # seconds within which CPU 1 comes to the instruction


class Outcome(Entry, frozen=True):
    """What came of a replay.

    does: what CPU 0 did while CPU 1 was held.
    held, before: where CPU 1 was held, and the instruction there.
    ops, of: the ops that it had then, and the callback of that ops; none where it was held before it had one.
    entered, passed: the callback that CPU 1 came to when it went on, and the ops that it was passed.
    oops: what the kernel said of it, where CPU 1 did not come back.
    turns: how often CPU 1 took interrupts until CPU 0 had done it; this differs from boot to boot, and is not saved.
    """

    scheme: Text
    does: Text
    held: Text
    before: Text
    ops: Address | None
    of: str
    outcome: Came
    entered: Text
    passed: Address
    oops: tuple[Text, ...]
    turns: Natural | None = None


def replayed(machine: RealMachine, how: How, replay: Replay) -> tuple[str, Outcome]:
    """A kernel's banner, and what came of a replay there. Raises TramplabError for an image that does not fit, one that refuses a
    step, and a boot that does not come to its end."""
    session = _Session(machine, replay)
    files = {"plan": replays.steps(machine, replay).encode()}
    image = bootable(how.image)
    booted = qemu.lines(machine.isa, str(how.image), image, files, how.append, how.seconds, session.carry_out)
    with closing(booted) as lines:
        said = [protocol.line(line) for line in lines]
    for line in said:
        if line.word == "refused":
            raise TramplabError(f"{how.image} refuses {line.refusal[1]} ({line.refusal[0]}), so nothing is replayed there.")
    banner = next(line.rest for line in said if line.word == "|")
    words = (found[0] for line in said if (found := _SAID.search(f"{line.word} {line.rest}")))
    return banner, session.outcome(tuple(words)[:2])


class _Session:
    """What is done at the stub, and what is read there."""

    def __init__(self, machine: RealMachine, replay: Replay) -> None:
        opened = machine.opened
        self._isa, self._replay, self._held = machine.isa, replay, replays.held(machine, replay)
        self._ops, self._pc = _REGISTERS[machine.isa.name]
        self._begins, self._has = (opened.address(plan.PREFIX[machine.isa.name] + call) for call in (BEGINS, HAS))
        self._names = {opened.address(name): name for name in _CALLBACKS}
        self._oops = opened.address(_OOPS)
        self._func = opened.struct("ftrace_ops").fields["func"].offset

    def carry_out(self, connection: socket.socket) -> None:
        """Hold CPU 1 while CPU 0 changes who traces, and let it go on."""
        self._stub = stub = Stub(connection)
        self._begin()
        stub.breakpoint(self._held.address)
        self._run(1, seconds=_ARRIVES)
        if self._at(1) != self._held.address:
            raise TramplabError(
                f"CPU 1 does not come to {self._held.place} in {_ARRIVES:.0f} seconds: boot it where there is less to do."
            )
        self._before = decode.at(self._isa, self._held.address, stub.memory(self._held.address, 8)).text
        self._had = self._passed() if self._replay.held == replays.FUNCTION else (None, "")
        stub.breakpoint(self._has)
        self._turned = self._turns()
        stub.remove(self._held.address)
        self._waits = self._at(0) != self._has
        self._let_go((0, 1) if self._waits else (1,))
        stub.remove(self._has)
        stub.leave()

    def _begin(self) -> None:
        """Let both go on until one says that it begins: it is the kernel's CPU 0, which on riscv64 may be any of the machine's."""
        self._cpus = 0, 1
        self._stub.breakpoint(self._begins)
        while self._begins not in (at := (self._at(0), self._at(1))):
            self._run(0, 1)
        self._cpus = (0, 1) if at[0] == self._begins else (1, 0)
        self._stub.remove(self._begins)

    def _let_go(self, cpus: tuple[int, ...]) -> None:
        self._until(cpus, 1, self._names)
        self._entered, self._got = self._names[self._at(1)], self._passed()
        self._until(cpus, 1, [self._held.after, self._oops])
        self._back = self._at(1) == self._held.after
        self._go((0, 1), 0, [self._has])  # what CPU 0 waited for has gone on

    def outcome(self, words: tuple[str, ...]) -> Outcome:
        """What came of it; words: what the kernel said of an oops."""
        (ops, of), (passed, now) = self._had, self._got
        own = self._entered in (of, now, _LIST)  # the list function makes nothing of the ops that it is passed
        return Outcome(
            self._replay.scheme,
            self._replay.order.does,
            self._held.place,
            self._before,
            None if ops is None else f"{ops:#x}",
            of,
            "waits" if self._waits else "together" if own else "apart",
            self._entered,
            f"{passed:#x}",
            () if self._back else words,
            self._turned,
        )

    def _turns(self) -> int:
        """Let CPU 0 go on, and have CPU 1 take what interrupts come for it, until CPU 0 has done what it does; how often."""
        for turn in range(_TURNS):
            self._run(0, seconds=_TURN)
            if self._at(0) == self._has:
                return turn
            self._run(0, 1)
            self._go((0, 1), 1, [self._held.address])
        return _TURNS

    def _until(self, cpus: tuple[int, ...], cpu: int, addresses: Collection[int]) -> None:
        """Let CPUs go on, without one that waits to be let past, until one of them is at one of the addresses."""
        for address in addresses:
            self._stub.breakpoint(address)
        self._go(cpus, cpu, addresses)
        for address in addresses:
            self._stub.remove(address)

    def _go(self, cpus: tuple[int, ...], cpu: int, addresses: Collection[int]) -> None:
        """The same where there are breakpoints."""
        while self._at(cpu) not in addresses:
            self._run(*(c for c in cpus if c == cpu or self._at(c) != self._has))

    def _run(self, *cpus: int, seconds: float | None = None) -> None:
        self._stub.run(*(self._cpus[cpu] for cpu in cpus), seconds=seconds)

    def _at(self, cpu: int) -> int:
        return self._stub.registers(self._cpus[cpu])[self._pc]

    def _passed(self) -> tuple[int, str]:
        """The ops that CPU 1 has as an argument, and the name of its callback."""
        ops = self._stub.registers(self._cpus[1])[self._ops]
        func = int.from_bytes(self._stub.memory(ops + self._func, 8), "little")
        return ops, self._names.get(func, f"{func:#x}")
