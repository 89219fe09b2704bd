"""BPF's link of kprobe_multi: a struct around the fprobe, and the program that its handlers run."""

from __future__ import annotations

from ...base.errors import TramplabError
from ...ftrace.layout import fields, private_of
from ...ftrace.meant import fprobes_on_graph_tracer
from ...ftrace.releases import history, registers
from ...ftrace.steps import Step, block
from ..guest import Guest
from ..pool_layout import Take
from .request import Fprobe

#: The struct with the fprobe in it, and its member.
STRUCT, _FPROBE = "bpf_kprobe_multi_link", "fp"
#: BPF_PROG_TYPE_KPROBE and BPF_TRACE_KPROBE_SESSION (include/uapi/linux/bpf.h), and the bytes that each call in a session keeps for
#: its program.
_TYPE, _SESSION, COOKIE = 2, 56, 8
_HANDLERS = {"entry_handler": "kprobe_multi_link_handler", "exit_handler": "kprobe_multi_link_exit_handler"}
#: The guest's handlers of a link whose way to a pt_regs has a name, before that name; and its programs: what reads a pt_regs, or
#: another structure by its link's name.
LINKED = {"entry_handler": "lab_multi_entry_", "exit_handler": "lab_multi_exit_"}
_PROGRAM = "lab_multi_program"
_PROGRAMS = {"fregs": f"{_PROGRAM}_fregs", "light": f"{_PROGRAM}_light"}


def program(link: str) -> str:
    """The guest function that a link with such a way runs."""
    return _PROGRAMS.get(link, _PROGRAM)


def session(request: Fprobe) -> bool:
    """Is it a link with one program for both ends, which decides at the entry whether it runs at the return?"""
    return request.multi and request.entry and request.exit


def check(guest: Guest, request: Fprobe) -> None:
    """Raise TramplabError for a session where links have none."""
    features = guest.features
    if session(request) and not features["kprobe_session"]:
        raise TramplabError(
            f"a link of kprobe_multi has its program at the entry or at the return in {features}; {features.isa} has sessions, "
            f"with one at both, {history(features.isa, 'kprobe_session')}."
        )


def handlers(guest: Guest, request: Fprobe) -> dict[str, str]:
    """Member of struct fprobe -> the guest function that it leads to: where no fprobe is given a pt_regs, a handler that makes one
    as the release does, unless the request says how. Raises TramplabError where no handler is known to do so."""
    features, state, named = guest.features, request.link, LINKED
    if not request.link:
        named = _HANDLERS
        if fprobes_on_graph_tracer(features):
            state = f"_{registers(features.isa, features.release, 'partial').value}"
    wanted = {"entry_handler": request.entry, "exit_handler": request.exit}
    return {name: handler + state for name, handler in named.items() if wanted[name]}


def take_link(guest: Guest, take: Take) -> tuple[int, int]:
    """Memory for a link: its address, and that of the fprobe in it. Raises TramplabError for want of memory."""
    struct = guest.image.struct(STRUCT)
    at = take(struct.size, "link")
    return at, at + struct.fields[_FPROBE].offset


def link(guest: Guest, take: Take, request: Fprobe, at: int, index: int) -> list[Step]:
    """The steps that make a link without its fprobe, at this address, and its program. index: of its ops. Raises TramplabError for
    want of memory."""
    image = guest.image
    counted = "lab_bpf_multi_observe" if request.observe else "lab_bpf_count"
    code = image.address(program(request.link) if request.link else counted)
    members = {"type": _TYPE, "expected_attach_type": _SESSION if session(request) else 0}
    made = fields(image, "bpf_prog", {**members, "bpf_func": code, "insnsi": private_of(image, index)})
    prog = take(len(made), "program")
    return [block(prog, made, "a BPF program"), block(at, fields(image, STRUCT, {"link": prog}), "the link")]
