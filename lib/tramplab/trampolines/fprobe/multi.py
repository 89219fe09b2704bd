"""BPF's link of kprobe_multi: a struct around the fprobe, and the program that its handlers run."""

from __future__ import annotations

from ...ftrace.layout import fields
from ...ftrace.releases import registers
from ...ftrace.steps import Step, block
from ..ground import Ground
from ..pools import Take
from .request import Fprobe

#: What begins with the fprobe.
STRUCT = "bpf_kprobe_multi_link"
_HANDLERS = {"entry_handler": "kprobe_multi_link_handler", "exit_handler": "kprobe_multi_link_exit_handler"}


def handlers(ground: Ground, request: Fprobe) -> dict[str, str]:
    """Members of struct fprobe, and the guest functions that they lead to: where no fprobe gives a pt_regs, those that make one as
    the release does. Raises TramplabError where none is known to."""
    features, state = ground.features, ""
    if features["rethook"] == "fgraph":
        state = f"_{registers(features.isa, features.release, 'partial').value}"
    wanted = {"entry_handler": request.entry, "exit_handler": request.exit}
    return {name: handler + state for name, handler in _HANDLERS.items() if wanted[name]}


def around(ground: Ground, take: Take, request: Fprobe, fprobe: bytes) -> tuple[bytes, list[Step]]:
    """The link around a struct fprobe, and the steps that make its program. Raises TramplabError for want of memory."""
    image = ground.image
    code = image.address("lab_bpf_multi_observe" if request.observe else "lab_bpf_count")
    prog = take(image.struct("bpf_prog").size, "program")
    made = fields(image, STRUCT, {"prog": prog, "func": code})
    return fprobe + made[len(fprobe) :], [block(prog, fields(image, "bpf_prog", {}), "a BPF program")]
