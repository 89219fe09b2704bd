"""BPF's fentry through an fprobe, as expensive as it was and with each proposed fix: the kernels and requests of these stages.

Four things are said to make it expensive (20221108220651.24492-1-revest@chromium.org): the trampoline saves all registers, the list
function is between it and the fprobe, the return is hooked though nothing wants it, and the hook's node comes from a list that all
CPUs share.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tramplab.emulate.machine import RECORD
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.fprobe import Fprobe

FUNCTION, ARGUMENTS = "two_args", (1, 2)
WITHOUT_ARGUMENTS = "no_args"


@dataclass(frozen=True)
class Stage:
    """An fprobe with some of the four costs, and with three changes that were not proposed.

    regs: all registers are saved.
    walk: the list is walked.
    hook: the return is hooked in any case; else the handler at the entry declines, when the node has been taken already.
    freelist: the node is from the list that all CPUs share; else from a stack of each task, as was proposed.
    node: else no node is taken, and the arguments are on the stack.
    ring: the node is from v6.7's ring of each CPU.
    guard: else the fprobe takes no recursion guard, which was offered in the reply
        (20221117223353.431e29124ba51a72c3507ced@kernel.org).
    """

    regs: bool = True
    walk: bool = True
    hook: bool = True
    freelist: bool = True
    node: bool = True
    ring: bool = False
    guard: bool = True


#: Reason -> what it is called.
REASONS = {"regs": "all registers", "walk": "list function", "hook": "needless return hook", "freelist": "shared freelist"}
UNOPTIMISED, OPTIMISED, DIRECT = Stage(), Stage(False, False, False, False), "direct"
WITHOUT_NODE, RING, UNGUARDED = replace(OPTIMISED, node=False), replace(OPTIMISED, ring=True), replace(OPTIMISED, guard=False)
#: One taken away after the other.
SEQUENCE = tuple(itertools.accumulate(REASONS, lambda stage, reason: replace(stage, **{reason: False}), initial=UNOPTIMISED))


@dataclass(frozen=True)
class Build:
    """A kernel, and whether its fprobe's ops is called like one in the core kernel's data: straight from the trampoline."""

    release: str
    overrides: tuple[tuple[str, Any], ...] = ()
    dynamic: bool = True


_X86 = (("per_ops_trampoline", False),)
_UNASKED = (("recursion_rcu_test", False),)  # the guard does not ask whether RCU watches, as in all the others
_NO_TEST = (("rethook_rcu_test", False), *_UNASKED)
#: Sections without preemption are counted, and a reader of RCU may be preempted.
PREEMPTIBLE = (("preemption", True), ("preempt_rcu", True))
#: ISA -> whether all registers are saved, and whether the list is walked -> the kernel. Of two neighbours, one has what the other
#: has not, and little else: see the releases' features.
BUILDS: Mapping[str, Mapping[tuple[bool, bool], Build]] = {
    "x86_64": {
        (True, True): Build("v6.12", _X86),
        (False, True): Build("v6.12", _X86),
        (True, False): Build("v6.12"),
        (False, False): Build("v6.12"),
    },
    "arm64": {
        (True, True): Build("v6.1"),
        (False, True): Build("v6.2"),
        (True, False): Build("v6.1", dynamic=False),
        (False, False): Build("v6.4", _UNASKED),
    },
    "riscv64": {
        (True, True): Build("v6.9", _NO_TEST),
        (False, True): Build("v6.12"),
        (True, False): Build("v6.9", _NO_TEST, dynamic=False),
        (False, False): Build("v6.16"),
    },
}


def every() -> list[Stage]:
    """The stages with all ways to have some of the four costs, and those that were not proposed."""
    return [*(Stage(*chosen) for chosen in itertools.product((True, False), repeat=len(REASONS))), WITHOUT_NODE, RING, UNGUARDED]


@functools.lru_cache(maxsize=2)
def _kernel(
    isa: str, release: str, overrides: tuple[tuple[str, Any], ...], function: str, given: tuple[int, ...]
) -> tuple[Kernel, Run]:
    kernel = Kernel(isa, release, meter=RECORD, **dict(overrides))
    return kernel, kernel.call(function, *given)


def run(isa: str, stage: Stage | str, arguments: bool = True, preemptible: bool = False) -> tuple[Run, Run]:
    """A call with a program by this stage's fprobe, or called directly (DIRECT), and the same call unhooked in that kernel.

    arguments: of the function with two, or of the one without any. preemptible: of a kernel that is, as arm64's defconfig has it;
    x86-64's are in any case.
    """
    chosen = PREEMPTIBLE if preemptible else ()
    function, given = (FUNCTION, ARGUMENTS) if arguments else (WITHOUT_ARGUMENTS, ())
    if isinstance(stage, str):
        build = BUILDS[isa][(False, False)]
        kernel, idle = _kernel(isa, build.release, (*build.overrides, *chosen), function, given)
        with kernel.attached(kernel.function(function), Bpf(fentry=1)):
            return kernel.call(function, *given), idle
    build = BUILDS[isa][(stage.regs, stage.walk)]
    pool = "freelist" if stage.freelist else "objpool" if stage.ring else "shadow"
    guard = () if stage.guard else (("fprobe_guard", False),)
    kernel, idle = _kernel(isa, build.release, (*build.overrides, *chosen, ("rethook", pool), *guard), function, given)
    request = Fprobe(
        bpf=True,
        exit=stage.node,
        declines=stage.node and not stage.hook,
        unwanted=stage.hook,
        save="regs" if stage.regs else "args",
        dynamic=build.dynamic,
    )
    with kernel.attached(kernel.function(function), request):
        return kernel.call(function, *given), idle
