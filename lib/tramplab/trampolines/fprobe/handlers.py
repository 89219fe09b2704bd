"""Which of the guest's functions an fprobe's handlers are."""

from __future__ import annotations

from ...emulate.image import Image
from . import multi
from .request import Fprobe

#: The guest's handlers of a shim, before its name.
_SHIMMED = {"entry_handler": "lab_shim_entry_", "exit_handler": "lab_shim_exit_"}


def handlers(request: Fprobe) -> dict[str, str]:
    """Member of struct fprobe -> the guest function that it leads to, of an fprobe that is no link's."""
    addresses = {}
    if request.shim:
        wanted = {"entry_handler": request.entry, "exit_handler": request.exit}
        return {name: first + request.shim for name, first in _SHIMMED.items() if wanted[name]}
    if request.bpf:
        return {"entry_handler": "bpf_fprobe_entry"} | ({"exit_handler": "bpf_fprobe_exit"} if request.exit else {})
    if request.watch:
        wanted = {"entry": request.entry, "exit": request.exit}
        return {f"{name}_handler": f"lab_fprobe_watch_{name}" for name, has in wanted.items() if has}
    if request.entry:
        counting = "lab_fprobe_decline" if request.declines else "lab_fprobe_entry"
        addresses["entry_handler"] = "lab_fprobe_observe_entry" if request.observe else counting
    if request.exit:
        addresses["exit_handler"] = "lab_fprobe_observe_exit" if request.observe else "lab_fprobe_exit"
    return addresses


def links(image: Image) -> tuple[str, ...]:
    """The links that an image has handlers for; none before fprobes were on the function graph tracer."""
    return _named(image, multi.LINKED["entry_handler"])


def shims(image: Image) -> tuple[str, ...]:
    """The shims that an image has; none where it has no links."""
    return _named(image, _SHIMMED["entry_handler"])


def _named(image: Image, first: str) -> tuple[str, ...]:
    return tuple(name.removeprefix(first) for name in image.symbols if name.startswith(first))
