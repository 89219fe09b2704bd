"""A trial: what is done on a booted kernel, and the plan of its boot.

A trial is a boot of its own, because some end in a panic. Its steps are those of init/init.c, with the places of `Trial.functions`
before the name of each: {int_sqrt.site}.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from ..vmlinux.run.machine import RealMachine
from . import plan
from .probes import COMMAND

SAY = "say say "
READING = f"read {COMMAND}"
#: ISA -> what each wait for other CPUs calls while functions are attached, on the CPU that waits: once for a wait.
_WAITS = {"x86_64": "do_sync_core", "arm64": "kick_all_cpus_sync", "riscv64": "flush_icache_all"}
#: Instructions that make a function's frame record the newest, by their text.
_FRAME = re.compile(r"mov x29, sp|add x29, sp, .*|(c\.addi4spn|addi) s0, sp, .*")


@dataclass(frozen=True)
class Trial:
    """One boot that tries a finding.

    says: what is tried.
    functions: those whose places the steps name, besides the leaf of getpid().
    """

    name: str
    says: str
    functions: tuple[str, ...]
    steps: tuple[str, ...]

    def text(self, machine: RealMachine, more: Sequence[str] = ()) -> str:
        """The plan of its boot: the text of all steps. more: kernel modules that are loaded first."""
        context: dict[str, Any] = {name: SimpleNamespace(**plan.places(machine, name)) for name in self.functions}
        context["leaf"] = SimpleNamespace(**plan.places(machine, plan.LEAF))
        context["returned"] = f"{_framed(machine, 'ftrace_return_to_handler'):x}"
        context["prefix"] = plan.PREFIX[machine.isa.name]
        context["body"] = f"{context['prefix']}getpid"
        context["waits"] = SimpleNamespace(**_waits(machine))
        return plan.rendered(machine, [step.format_map(context) for step in self.steps], more)


def do(command: str) -> str:
    """The step that has the kernel module do something."""
    return f"write {COMMAND} {command}"


def ops(letter: str, index: int, site: str, flags: int = 0) -> str:
    """The step that registers an ops of the module's on a function."""
    return do(f"{letter} {index} {{{site}.site}} {flags:x}")


def _framed(machine: RealMachine, function: str) -> int:
    """The offset at which a function has made its frame record; x86-64's need none."""
    symbol = machine.opened.image.symbols[function]
    at = symbol.address
    while machine.isa.name != "x86_64" and at < symbol.address + symbol.size:
        instruction = machine.machine.instruction_at(at)
        at += instruction.size
        if _FRAME.fullmatch(instruction.text):
            return at
    return symbol.address


def _waits(machine: RealMachine) -> dict[str, str]:
    """The first byte of what waits call, and the offset of its first instruction that takes a kprobe: no FENCE.I does."""
    at = machine.opened.image.symbols[_WAITS[machine.isa.name]].address
    first = machine.machine.instruction_at(at)
    return {"entry": f"{at:x}", "inside": f"{first.size if first.mnemonic == 'fence.i' else 0:x}"}
