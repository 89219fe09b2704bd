"""The request for a kprobe: a handler at the entry of functions."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import TramplabError, unknown
from ...ftrace.ops import Request

#: Guest functions that can be a kprobe's pre-handler.
HANDLERS = ("lab_kprobe_pre", "lab_kprobe_observe", "lab_kprobe_skip", "lab_kprobe_reenter")
#: The handler that sends the CPU elsewhere.
_REDIRECTS = "lab_kprobe_skip"


@dataclass(frozen=True, eq=False)
class Kprobe(Request):
    """A kprobe on each of the functions.

    breakpoint: by a breakpoint, at the first instruction where a kernel lets one be, instead of through ftrace.
    handler: its pre-handler, one of HANDLERS.
    go_to: for the handler that redirects, the guest function that calls go on in.
    post: it has a post-handler too.
    bpf: its handler runs a BPF program, as perf events bring it there.
    observe: that program writes down what it sees.
    """

    breakpoint: bool = False
    handler: str = HANDLERS[0]
    go_to: str = ""
    post: bool = False
    bpf: bool = False
    observe: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.handler not in HANDLERS:
            raise unknown("kprobe handler", self.handler, HANDLERS)
        if bool(self.go_to) != (self.handler == _REDIRECTS):
            raise TramplabError(f"go_to= belongs to the handler {_REDIRECTS}, which needs it.")
        if self.bpf and self.handler != HANDLERS[0]:
            raise TramplabError("bpf=True has a handler of its own: leave handler= out.")
        if self.observe and not self.bpf:
            raise TramplabError("observe= is for a kprobe with a BPF program; without, give it handler='lab_kprobe_observe'.")
