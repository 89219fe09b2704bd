"""A registered request, as the slow path holds it, of whatever kind it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..base.arguments import names, switch, text, whole
from ..base.errors import unknown
from .steps import Step

FL_ENABLED = 1 << 0
FL_DYNAMIC = 1 << 1
FL_SAVE_REGS = 1 << 2
FL_RECURSION = 1 << 4
FL_IPMODIFY = 1 << 12
FL_RCU = 1 << 14
FL_DIRECT = 1 << 17

#: Declared type of a request's field -> the check of its value.
_MAY_BE: dict[object, Callable[[Any, str], object]] = {
    "tuple[str, ...]": names,
    "str": text,
    "bool": switch,
    "int": whole,
    "int | None": lambda value, what: None if value is None else whole(value, what),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Request:
    """What a tracer asks for; each instance is one registration's identity. The kinds are in the folders of trampolines/.

    filter: names of the functions to trace, or one; empty for those it is attached to.
    notrace: names of the functions, or of the one, that are never traced for it.

    Raises TramplabError for a field that is not what it is declared as, as every kind does.
    """

    filter: tuple[str, ...] = ()
    notrace: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for f in fields(self):
            if may_be := _MAY_BE.get(f.type):
                object.__setattr__(self, f.name, may_be(getattr(self, f.name), f.name))


@dataclass(frozen=True)
class Generated:
    """Code that was made for one ops: its address, its size in bytes, and what it is called, "ftrace_trampoline"."""

    address: int
    size: int
    name: str


@dataclass(frozen=True)
class Agreed:
    """How a direct call shares a function with an ops that changes the ip.

    steps: the steps before that ops is there.
    frees: the steps that free what nobody uses then.
    undo: makes the direct call as it was, if the ops does not come after all.
    """

    steps: list[Step] = field(default_factory=list)
    frees: list[Step] = field(default_factory=list)
    undo: Callable[[], None] = lambda: None


@dataclass(eq=False)
class Registered:
    """A request that is registered, with everything that was allocated for it.

    request: of the kind that its maker serves.
    func: address of its callback.
    flags: its FTRACE_OPS_FL_ bits.
    functions: names that its hashes let through.
    go_to: address of the function that its callback redirects calls to, 0 if it does not.
    trampoline: address of its own trampoline, 0 if none.
    trampoline_size: bytes of it that were made for this ops.
    direct: target of its direct call, 0 if none; from v6.19 x86-64 marks a target that is to be jumped to by an odd address.
    jumped: hypothetical: a site of arm64 that reaches it jumps to it, for which the site's target is odd.
    alone: why it must be the only one on its functions, "" if it need not.
    must_reach: the error where a site does not reach it by itself, "" if it need not; {} in both stands for the function.
    generated: code that was made for it.
    structs: address -> name of the structs that this code uses.
    ops_func: of a direct call that can share a function with an ops that changes the ip: what its owner does then, as in struct
        ftrace_ops since v6.0; it may raise TramplabError, and nothing has changed then.
    remake: of a direct call that can be modified: (the ops, another request, does it share?) -> the steps that make what that asks
        for, and those that free what it had.
    shared: a direct call that has done what ops_func asks of it.
    registers_twice: where it comes to a function with an ops that changes the ip, it is refused the first time, makes its code
        again, and is registered once more.
    shares: the request for the one ops that it shares with others of its kind instead of being one itself (see ftrace/sharing.py).
    breakpoint: it is a breakpoint in the text and no ftrace_ops: ftrace does not know it, so it is in no list and in no record, and
        its maker's steps are the whole plan.
    index, address: of its struct ftrace_ops in the guest's pool; set when it is registered.
    """

    request: Any
    func: int
    flags: int
    functions: tuple[str, ...]
    go_to: int = 0
    trampoline: int = 0
    trampoline_size: int = 0
    direct: int = 0
    jumped: bool = False
    alone: str = ""
    must_reach: str = ""
    generated: tuple[Generated, ...] = ()
    structs: Mapping[int, str] = field(default_factory=dict)
    ops_func: Callable[[Registered], Agreed] | None = None
    remake: Callable[[Registered, Any, bool], tuple[list[Step], list[Step]]] | None = None
    shared: bool = False
    registers_twice: bool = False
    shares: Request | None = None
    breakpoint: bool = False
    index: int = -1
    address: int = 0

    def wants(self, function: str) -> bool:
        """Do this ops' hashes let calls of a function through?"""
        return function in self.functions

    @property
    def ipmodify(self) -> bool:
        """Does its callback change where the function goes on (FTRACE_OPS_FL_IPMODIFY)?"""
        return bool(self.flags & FL_IPMODIFY)

    @property
    def is_direct(self) -> bool:
        """Is it a direct call (FTRACE_OPS_FL_DIRECT)?"""
        return bool(self.flags & FL_DIRECT)

    @property
    def saves_regs(self) -> bool:
        """Does it want all registers (FTRACE_OPS_FL_SAVE_REGS)?"""
        return bool(self.flags & FL_SAVE_REGS)

    @property
    def assisted(self) -> bool:
        """Is it called through the assist function (ftrace_ops_get_func)?"""
        return bool(self.flags & (FL_RECURSION | FL_RCU))


def selected(request: Request, every: tuple[str, ...]) -> tuple[str, ...]:
    """The functions that a request's lists let through; raises TramplabError for names that do not exist.

    >>> selected(Request(filter=("b", "a", "b"), notrace=("a",)), ("a", "b", "c"))
    ('b',)
    """
    for name in (*request.filter, *request.notrace):
        if name not in every:
            raise unknown("function", name, every)
    return tuple(f for f in dict.fromkeys(request.filter or every) if f not in request.notrace)
