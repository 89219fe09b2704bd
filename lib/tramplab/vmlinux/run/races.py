"""A scheme's plan on a real kernel: its own site, pointer beside the function, trampolines and C core, in place of the lab's."""

from __future__ import annotations

from pathlib import Path

from ... import isa as isas
from ...base.errors import GuestFault, StepLimit, TramplabError
from ...ftrace import releases
from ...ftrace.releases import Features
from ...ftrace.steps import Write
from ...races.schemes.play import Stage
from ...races.schemes.schemes import SCHEMES, Scheme
from ...races.subject import Subject
from ..open.image import Opened, open_image
from .machine import FUNCTION, RealMachine
from .slowpath import slowpath

#: Without x86-64, whose breakpoints are not set up here.
ISAS = ("arm64", "riscv64")
_ARGUMENT = 1


def fitting(machine: RealMachine) -> list[Scheme]:
    """The schemes by which this kernel changes its sites, and what was proposed for such sites; raises TramplabError for an ISA
    that is not explored so, and for sites of an unknown shape. Direct calls are not made on real kernels."""
    if machine.isa.name not in ISAS:
        file = machine.opened.payload.path
        raise TramplabError(f"{file} is of {machine.isa.name}; only schemes of {' and '.join(ISAS)} are explored on an image.")
    some = [s for s in SCHEMES.values() if s.isa == machine.isa.name and s.plain]
    return [s for s in some if _shape(_lab(s)) == _shape(machine.features)]


def subjects_in(path: Path, name: str | None) -> list[tuple[Scheme, Subject]]:
    """What subjects() gives for the kernel in a file; raises TramplabError also where there is none."""
    return subjects(open_image(path), name)


def subjects(opened: Opened, name: str | None) -> list[tuple[Scheme, Subject]]:
    """The schemes that fit a kernel, or the one of this name, each on a machine of its own. Raises TramplabError where none does,
    or the one does not."""
    machine = RealMachine(opened)
    chosen = [s for s in fitting(machine) if name in (None, s.name)]
    if not chosen:
        names = [s.name for s in fitting(machine)]
        known_ones = f"those that it does are {', '.join(names)}" if names else "nor by any other that is explored"
        raise TramplabError(f"{opened.version} does not change its sites by {name or 'any scheme that is explored'}: {known_ones}.")
    first = [machine, *(RealMachine(opened) for _ in chosen[1:])]
    made = [(scheme, scheme.subject(stage(m)), m) for scheme, m in zip(chosen, first, strict=True)]
    for scheme, subject, m in made:
        _require_calls(scheme, subject, m)
    return [(scheme, subject) for scheme, subject, _ in made]


def _require_calls(scheme: Scheme, subject: Subject, machine: RealMachine) -> None:
    """Raise TramplabError unless calls return where nobody changes anything: before the plan, behind it, and where an ops has just
    been attached or is about to go. One that does not is no race: something is missing here."""
    machine.machine.keep()
    lives = (step for ops in subject.ops for step in (ops.on, ops.off) if step is not None)
    for count in sorted({0, *lives, len(subject.steps)}):
        machine.apply([step for step in subject.steps[:count] if isinstance(step, Write)])
        try:
            machine.machine.call(subject.entry, dict(subject.call.registers), subject.call.stack)
        except (GuestFault, StepLimit) as e:
            raise TramplabError(
                f"{machine.opened.payload.path} is not explored by {scheme.name}, because a call fails where nobody changes "
                f"anything: {e}"
            ) from None
        finally:
            machine.machine.put_back()


def stage(machine: RealMachine) -> Stage:
    """A real kernel to play on. Raises TramplabError where it does not have the function that is called."""
    if not machine.opened.has(FUNCTION):
        raise TramplabError(
            f"{machine.opened.payload.path} has no {FUNCTION}(), which is called here: give a kernel with CONFIG_BPF_SYSCALL=y and "
            f"CONFIG_NET=y."
        )
    function = machine.function(FUNCTION)
    registers = {machine.isa.args[0]: _ARGUMENT}
    value = machine.call(function, registers).value
    if function.site.literal is not None:  # as booting leaves it; an image has zero there
        machine.write_u64(function.site.literal, machine.data("ftrace_nop_ops"))
    plan = slowpath(machine, function)
    return Stage(
        machine=machine.machine,
        slowpath=plan,
        function=function,
        registers={machine.isa.fp: machine.machine.stack_top - 32, **registers},
        stack=(),
        value=value,
        private=((machine.cpu.task, machine.opened.struct("task_struct").size),),
        scratch=machine.cpu.shadow,
        vector=None,
        carry_out=machine.apply,
        kernel=str(machine),
        made=tuple((made.address, made.size, made.name) for made in machine.made),
    )


def _lab(scheme: Scheme) -> Features:
    """The features of the lab's kernel of a scheme."""
    return releases.features(isas.get(scheme.isa), scheme.release, dict(scheme.overrides))


def _shape(features: Features) -> tuple[object, ...]:
    """The features that say how sites change, and where a trampoline finds its ops."""
    return features["site"], features["call_ops"]
