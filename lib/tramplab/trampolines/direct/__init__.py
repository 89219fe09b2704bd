"""A direct call: the patch site calls a stub of the guest itself, where it reaches it; else a common trampoline does."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import TramplabError
from ...ftrace.ops import FL_DIRECT, FL_DYNAMIC, FL_ENABLED, FL_SAVE_REGS, Registered, Request
from ...ftrace.releases import history
from ...ftrace.steps import Step
from ..guest import Guest
from ..kind import Hook, Kind
from ..plain import each
from ..reentry import ending


@dataclass(frozen=True, eq=False)
class Direct(Request):
    """A direct call: the patch site calls `target` (a guest symbol) itself where it can.

    far: the stub that lies as far away as the kernel's layout allows.
    observe: the stub that records what it saw.
    reenters: the stub that calls a traced function, and lies behind the kernel's text; see trampolines/reentry.
    """

    far: bool = False
    observe: bool = False
    reenters: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if ending(self.reenters) and (self.far or self.observe):
            raise TramplabError("no stub that calls a traced function is far or observes: leave out far= and observe=.")

    @property
    def target(self) -> str:
        """The guest symbol of the stub."""
        if self.reenters:
            return f"lab_direct{ending(self.reenters)}"
        return f"lab_direct_{'far' if self.far else 'near'}{'_observe' if self.observe else ''}"


class DirectCalls:
    """The maker of direct calls: the stubs are the guest's, so there is no code to make."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def serves(self, request: Request) -> bool:
        """Is it a direct call of a stub?"""
        return isinstance(request, Direct)

    def check(self, request: Request, functions: tuple[str, ...]) -> None:
        """Raise TramplabError if the release has no direct calls."""
        check_direct(self._guest, request)

    def make(self, request: Direct, functions: tuple[str, ...]) -> Registered:
        """The registration, whose target is the stub."""
        ops = registered(self._guest, request, functions)
        ops.direct = self._guest.image.address(request.target)
        return ops

    def create(self, ops: Registered) -> list[Step]:
        """No steps: the stub is there from the beginning."""
        return []

    def free(self, ops: Registered) -> list[Step]:
        """No steps: the stub stays."""
        return []


def check_direct(guest: Guest, request: Request) -> None:
    """Raise TramplabError if the release has no direct calls, or if no function is named for one."""
    if not request.filter:
        raise TramplabError("a direct call is for particular functions: give it a filter.")
    if not guest.features["direct"]:
        isa = guest.features.isa
        raise TramplabError(f"{guest.features} has no direct calls; {isa} has them {history(isa, 'direct')}.")


def registered(guest: Guest, request: Request, functions: tuple[str, ...]) -> Registered:
    """A direct call as the slow path holds it: an ops whose function puts the target, still to be set, where the common
    trampoline's exit finds it."""
    regs = bool(guest.features["regs"]) and not guest.features["direct_without_regs"]
    return Registered(
        request,
        guest.image.address("call_direct_funcs"),
        FL_ENABLED | FL_DIRECT | FL_DYNAMIC | (FL_SAVE_REGS if regs else 0),
        functions,
        trampoline=guest.image.address("ftrace_regs_caller" if regs else "ftrace_caller"),
    )


KIND = Kind(
    DirectCalls,
    (
        Hook(
            "direct",
            "a direct call to a stub near the kernel's text",
            "direct",
            False,
            lambda _: [Direct()],
            instead="direct-far",
            placed="near",
        ),
        Hook(
            "direct-far",
            "a direct call to a stub as far away as the layout allows",
            "direct",
            False,
            lambda _: [Direct(far=True)],
            placed="far",
        ),
        Hook(
            "direct+ops",
            "a direct call and ftrace_ops on one function",
            "direct",
            True,
            lambda k: [Direct(), *each(k)],
            use="direct_beside_ops",
        ),
    ),
)
