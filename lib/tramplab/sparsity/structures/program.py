"""The argument array that a BPF trampoline passes to its programs, and no registers."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ...base.errors import TramplabError
from ...lab.kernel import Kernel
from ...trampolines.bpf import Bpf
from .classify import Sample, classify
from .fields import WORD, Place
from .frames import FUNCTIONS, POISONS, SEEDS, Between, Frame, goes_on, handed, numbers, registers
from .providers import provider

NAME, STRUCT = "BPF trampoline", "array"
#: The program, and how many arguments both functions have.
_PROGRAM, _ARGUMENTS = "lab_bpf_count", 3


def offered(kernel: Kernel) -> bool:
    """Has a kernel BPF trampolines?"""
    return bool(kernel.features["bpf"])


def program_frame(kernel: Kernel, seeds: Sequence[int] = SEEDS, poisons: Sequence[int] = POISONS) -> Frame:
    """What each word of the array holds that a program is given. Raises TramplabError where the kernel has no BPF trampolines."""
    machine, isa = kernel.machine, kernel.isa
    seeds, poisons = numbers(seeds, poisons)
    words = [Place(WORD * n, WORD, f"ctx[{n}]") for n in range(_ARGUMENTS)]
    samples = []
    for seed in seeds:
        function = kernel.function(FUNCTIONS[seed % len(FUNCTIONS)])
        arguments, start = [seed * 16 + n for n in range(1, 5)], registers(machine, seed)
        call = functools.partial(kernel.call, function, *arguments, registers=start)
        with kernel.attached(function, Bpf(fentry=1)):
            back = goes_on(machine, provider("ftrace_caller"), function)
            between = Between(function.address, back, kernel.image.address(_PROGRAM), isa.args[0], WORD * _ARGUMENTS)
            for poison in poisons:
                seen = handed(machine, between, seed, poison, call)
                if seen is None:
                    raise TramplabError(f"the BPF trampoline of {kernel} did not hand anything to its program.")
                samples.append(Sample(seed, poison, {word.name: word.of(seen.data) for word in words}, seen.truth))
    slots = classify(samples, {word.name: register for word, register in zip(words, isa.args, strict=False)})
    return Frame(NAME, str(kernel), isa.name, STRUCT, WORD * _ARGUMENTS, slots)
