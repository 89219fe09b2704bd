"""The ways out for those who want a pt_regs and are handed a light structure: what each is, and whether a kernel has it.

Each is run as an fprobe's handler that makes what its program reads, as a link of kprobe_multi's does (guest/core/ways.c).
They differ in nothing else, so what a way costs is what it adds to the link whose program reads the ftrace_regs itself (READ).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import TramplabError, unknown
from ...ftrace.meant import fprobes_on_graph_tracer
from ...ftrace.releases import history
from ...lab.kernel import Kernel
from ...trampolines.fprobe.handlers import links
from ...trampolines.fprobe.multi import program
from ...trampolines.fprobe.request import Fprobe
from ..structures import fills
from ..structures.fields import PT_REGS, embeds
from ..structures.providers import Provider

#: Kinds of ways: all registers are saved for all consumers; a pt_regs is filled in from what was saved; a light structure is made
#: of another; the program is rewritten, to read what was saved (context/).
FULL, COPY, LIGHT, REWRITTEN = KINDS = ("full save", "fill", "light", "rewritten")
#: Places of the structure that the program reads: on the stack, in memory of this CPU, or where the trampoline put it.
STACK, CPU, IN_PLACE = PLACES = ("stack", "per-CPU", "in place")
#: The link whose program reads what the trampoline saved, as one would that was rewritten for it.
READ = "fregs"
#: Links that pass light structures -> the function from which on they do.
_LIGHT = ("light", "chain")
_PLACES = {"stack": STACK, "cpu": CPU}


@dataclass(frozen=True)
class Way:
    """One way that is run.

    link: the guest's name for it.
    fill: of a COPY, what is filled in: a state of ftrace_partial_regs(), "perf", or "most", all that can be.
    place: one of PLACES.
    hypothetical: no kernel of the ISA has it.
    """

    link: str
    kind: str
    fill: str
    place: str
    hypothetical: bool

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.link if self.kind == LIGHT else f"{self.fill}, {self.place}"


def ways(kernel: Kernel) -> list[Way]:
    """The ways that are links of a kernel, in the order of the guest's; raises TramplabError where fprobes have none."""
    link_names = links(kernel.image)
    if not link_names:
        raise TramplabError(f"{kernel} has no links; {kernel.isa.name} has fprobes {history(kernel.isa.name, 'fprobe')}.")
    return [_way(kernel, link) for link in link_names if link != READ]


def way(kernel: Kernel, link: str) -> Way:
    """The way of this link; raises TramplabError with near matches."""
    by_link = {w.link: w for w in ways(kernel)}
    if link not in by_link:
        raise unknown("way", link, by_link)
    return by_link[link]


def _way(kernel: Kernel, link: str) -> Way:
    if link in _LIGHT:
        return Way(link, LIGHT, "", STACK, True)
    where, _, fill = link.partition("_")
    # where a pt_regs is embedded, and so needs no room, is seen: the program reads what the trampoline has filled
    place = IN_PLACE if where == "stack" and embeds(kernel.image) and fill != "perf" else _PLACES[where]
    isa = kernel.isa.name
    is_fill = fill in fills.states(isa, "partial") or fill == "perf"
    return Way(link, COPY, fill, place, place == STACK or not is_fill)


def provider(link: str, struct: str = PT_REGS) -> Provider:
    """The provider that hands a link's structure to its program. struct: what that is."""
    return Provider(
        link,
        f"a link's handler ({link}), to its program",
        lambda functions: Fprobe(filter=functions, link=link),
        fprobes_on_graph_tracer,
        program(link),
        0,
        struct,
    )
