"""One measurement: what a hook adds to one call of a function, as a plain dictionary."""

from __future__ import annotations

from typing import Any

from ..base.arguments import whole
from ..base.errors import TramplabError
from ..emulate.counting.counts import COMPONENTS
from ..ftrace.releases import LATEST
from . import hooks
from .kernel import Kernel
from .run import Run

#: The traced function for each number of integer arguments.
FUNCTIONS = (
    "no_args",
    "one_arg",
    "two_args",
    "three_args",
    "four_args",
    "five_args",
    "six_args",
    "seven_args",
    "eight_args",
    "nine_args",
    "ten_args",
    "eleven_args",
    "twelve_args",
)
#: The functions of zero to eight arguments, which the studies call: arm64 and riscv64 pass all of these in registers.
STUDIED = FUNCTIONS[:9]


def run(isa: str, hook: str, release: str = LATEST, args: int = 1, callbacks: int = 1, **overrides: Any) -> Run:
    """Boot a kernel, attach the hook, call a function with `args` integer arguments (1, 2, 3, ...) once.

    Raises TramplabError for anything unknown and for hooks that the release never had on the ISA.
    """
    args = whole(args, "args")
    if not 0 <= args < len(FUNCTIONS):
        raise TramplabError(f"there is no traced function with {args} arguments; choose 0 to {len(FUNCTIONS) - 1}.")
    h = hooks.get(hook)
    kernel = Kernel(isa, release, **overrides)
    hooks.require(h, kernel.features)
    function = kernel.function(FUNCTIONS[args])
    with kernel.attached(function, *hooks.requests(h, callbacks)):
        return kernel.call(function, *range(1, args + 1))


def counts_of(isa: str, hook: str, release: str = LATEST, args: int = 1, callbacks: int = 1, **overrides: Any) -> dict:
    """Run once and return the counts as a dictionary, see counted()."""
    args, callbacks = whole(args, "args"), whole(callbacks, "callbacks")
    return counted(run(isa, hook, release, args, callbacks, **overrides), isa, hook, release, args, callbacks)


def counted(r: Run, isa: str, hook: str, release: str, args: int, callbacks: int) -> dict:
    """The counts of a run that was made so; they are absolute (the unhooked call is the hook "none"). Keys besides the parameters:

    components: counts by component.
    entry: counts from the function's first byte to its body, without the callbacks.
    exit: counts from the body's last instruction until the caller.
    frame_bytes, frame_bytes_written: size of the trampolines' stack frame, and how much of it they write.
    stack_bytes: how deep the whole call goes below its first stack pointer.
    """
    return {
        "isa": isa,
        "hook": hook,
        "release": release,
        "args": args,
        "callbacks": callbacks if hook != "none" else 0,
        "components": {c: r.counts.by_component[c].as_dict() for c in COMPONENTS},
        "entry": r.entry.as_dict(),
        "exit": r.exit.as_dict(),
        "frame_bytes": r.frame.frame,
        "frame_bytes_written": r.frame.written,
        "stack_bytes": r.frame.deepest,
    }
