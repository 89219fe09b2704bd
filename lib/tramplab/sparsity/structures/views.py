"""The ways to read a provider's structure: through its accessors, as the pt_regs that it embeds, or as one made of it."""

from __future__ import annotations

from dataclasses import dataclass

from ...ftrace import releases
from ...ftrace.releases import Features
from ...lab.kernel import Kernel
from . import fields, fills
from .fields import FTRACE_REGS, PT_REGS
from .frames import Seen
from .providers import Provider, of

#: The ways to read a structure: by ftrace_regs_get_...(); as a pt_regs; as what ftrace_partial_regs() makes of it, into room that
#: nobody else writes; and as what ftrace_fill_perf_regs() makes of it.
ACCESSORS, DIRECT, PARTIAL, PERF = WAYS = ("accessors", "pt_regs", "partial", "perf")


@dataclass(frozen=True)
class View:
    """A provider and one of WAYS."""

    provider: Provider
    way: str

    @property
    def kind(self) -> str:
        """The structure that its consumers are given."""
        return FTRACE_REGS if self.way == ACCESSORS else PT_REGS

    @property
    def name(self) -> str:
        """The provider, and the way where it is not the only one.

        >>> from .providers import provider
        >>> View(provider("ftrace_caller"), PARTIAL).name, View(provider("breakpoint"), DIRECT).name
        ('ftrace_caller, partial', 'breakpoint')
        """
        return self.provider.name if self.provider.struct == PT_REGS else f"{self.provider.name}, {self.way}"


def views(kernel: Kernel) -> list[View]:
    """The views of a kernel, in order."""
    found = []
    for provider in of(kernel.features):
        if provider.struct == PT_REGS:
            found.append(View(provider, DIRECT))
            continue
        found.append(View(provider, ACCESSORS))
        if fields.embeds(kernel.image):
            found.append(View(provider, DIRECT))
        found += [View(provider, way) for way in (PARTIAL, PERF) if _made(kernel.features, way)]
    return found


def _made(features: Features, what: str) -> bool:
    """Does a release make a pt_regs of a ftrace_regs in this way?"""
    version = releases.parse(features.release)
    return any(interval.contains(version) for interval in releases.uses_of_registers(features.isa, what))


def given(kernel: Kernel, view: View, seen: Seen, room: int) -> int:
    """The address of the structure that a view's consumers are given, of a call that was seen and whose stack is in place again.
    room: for a pt_regs, holding zeros."""
    if view.way in (ACCESSORS, DIRECT):
        return seen.address
    return fills.fill(kernel, view.way, seen.address, room).address
