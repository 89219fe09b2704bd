"""BPF programs on an fprobe: the programs, the links to them, and how many words of arguments they take."""

from __future__ import annotations

from ...base.errors import TramplabError
from ...emulate.image import Image
from ...ftrace.layout import fields
from ...ftrace.steps import Step, block
from ..arguments import words
from ..bpf.signature import require
from ..guest import Guest
from ..pool_layout import Take
from .request import Fprobe

#: Words of the array beside the arguments: the number of arguments, and what the function returned.
_BESIDE = 2


def check(image: Image, functions: tuple[str, ...]) -> None:
    """Raise TramplabError unless it is one function whose arguments are integers in registers."""
    if len(functions) != 1:
        raise TramplabError(f"BPF programs are for one function; {len(functions)} were named.")
    require(image.prototypes[functions[0]])
    stacked = sum(isinstance(place, int) for place in words(image.isa, image.prototypes[functions[0]]))
    if stacked:
        raise TramplabError(
            f"{functions[0]} takes {stacked} arguments on the stack, which BPF on an fprobe does not copy; choose one with fewer."
        )


def programs(guest: Guest, take: Take, request: Fprobe, function: str) -> tuple[int, list[int], int, list[Step]]:
    """The address of a struct bpf_fprobe, the numbers of its programs' counters, the bytes of the array of arguments, and the steps
    that make it all. Raises TramplabError where there is not enough memory; the counters are given back then."""
    image = guest.image
    fentry, fexit = int(request.entry), int(request.exit and not (request.declines or request.unwanted))
    code = image.address("lab_bpf_observe_clobber" if request.observe else "lab_bpf_count")
    number = len(words(image.isa, image.prototypes[function]))
    counters = guest.counters.take(fentry + fexit)
    steps: list[Step] = []
    try:
        links = b""
        for cookie, counter in enumerate(counters, start=1):
            at = take(image.struct("bpf_prog").size, "program")
            made = fields(image, "bpf_prog", {"active": guest.counters.offset(counter), "bpf_func": code})
            steps.append(block(at, made, "a BPF program"))
            links += fields(image, "lab_bpf_link", {"prog": at, "cookie": cookie})
        members = {"nr_args": number, "nr_fentry": fentry, "nr_fexit": fexit, "declines": int(request.declines)}
        whole = fields(image, "bpf_fprobe", members) + links
        steps.append(block(bpf := take(len(whole), "programs"), whole, "the programs of an fprobe"))
    except TramplabError:
        for counter in counters:
            guest.counters.give(counter)
        raise
    return bpf, counters, 8 * (number + _BESIDE), steps
