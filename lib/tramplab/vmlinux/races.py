"""A scheme's plan on a real kernel: its own site, pointer beside the function, trampolines and C core, in place of the lab's."""

from __future__ import annotations

from pathlib import Path

from .. import isa as isas
from ..analyse.races.play import Stage
from ..analyse.races.schemes import SCHEMES, Scheme
from ..analyse.races.subject import Subject
from ..errors import TramplabError
from ..ftrace import releases
from ..ftrace.releases import Features
from .machine import FUNCTION, RealMachine
from .result import machine_of
from .slowpath import features_of, slowpath

#: Of x86-64 the way through its breakpoints is not set up here.
ISAS = ("arm64", "riscv64")
_ARGUMENT = 1


def fitting(machine: RealMachine) -> list[Scheme]:
    """The schemes by which this kernel changes its sites, and what was proposed for such sites; raises TramplabError for an ISA
    that is not explored so, and for sites of an unknown shape."""
    if machine.isa.name not in ISAS:
        file = machine.opened.payload.path
        raise TramplabError(f"{file} is of {machine.isa.name}; only schemes of {' and '.join(ISAS)} are explored on an image.")
    there = features_of(machine)
    return [s for s in SCHEMES.values() if s.isa == machine.isa.name and _shape(_lab(s)) == _shape(there)]


def subject(scheme: Scheme, path: Path) -> Subject:
    """A scheme on the kernel of a file. Raises TramplabError for one whose sites are not changed so."""
    return on(scheme, machine_of(path))


def on(scheme: Scheme, machine: RealMachine) -> Subject:
    """A scheme on a kernel, which is used for nothing else; raises TramplabError for one whose sites are not changed so."""
    known = [s.name for s in fitting(machine)]
    if scheme.name not in known:
        there = f"those that do are {', '.join(known)}" if known else "none of those that are explored does"
        raise TramplabError(f"{machine.opened.version} does not change its sites by {scheme.name}: {there}.")
    return scheme.subject(stage(machine))


def stage(machine: RealMachine) -> Stage:
    """A real kernel to play on."""
    function = machine.function(FUNCTION)
    registers = {machine.isa.args[0]: _ARGUMENT}
    value = machine.call(function, registers).value
    plan = slowpath(machine, function)
    return Stage(
        machine=machine.machine,
        slowpath=plan,
        function=function,
        registers={machine.isa.fp: machine.machine.stack_top - 32, **registers},
        stack=(),
        value=value,
        private=((machine.cpu.task, machine.opened.struct("task_struct").size),),
        scratch=(),
        vector=None,
        carry_out=machine.apply,
        made=tuple((made.address, made.size, made.name) for made in machine.made),
    )


def _lab(scheme: Scheme) -> Features:
    """What the lab's kernel of a scheme has."""
    return releases.features(isas.get(scheme.isa), scheme.release, dict(scheme.overrides))


def _shape(features: Features) -> tuple[object, ...]:
    """What says how sites change, and where a trampoline finds its ops."""
    return features["site"], features["call_ops"]
