"""A CPU that calls a function while a plan is carried out: where the call goes after each step, in every order of the writes, and
where one goes that was on its way already."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from tramplab.base.errors import TramplabError
from tramplab.ftrace.layout import Heap, OpsMemory
from tramplab.ftrace.steps import BYTE, POINTER, Free, Step, Write
from tramplab.lab import boot
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.direct import Direct
from tramplab.trampolines.plain import Ops

from .setups import Setup

FUNCTION, ARGUMENTS, OTHER = "three_args", (1, 2, 3), "one_arg"
#: What freed memory is overwritten with, and instructions after which a call that then goes astray is given up.
POISON, BUDGET = b"\xee", 5_000
#: A change -> what is attached before it, and what comes (or with "-" goes): "d" is the direct call, "o" an ops.
CHANGES = {
    "attach": ("", "d"),
    "share": ("d", "o"),
    "join": ("o", "d"),
    "leave": ("od", "-d"),
    "unshare": ("do", "-o"),
    "detach": ("d", "-d"),
}
FAULT = "fault"
#: What a call can run -> the functions one of which it then comes to.
RUN = {"direct": tuple(Direct(far=far).target for far in (False, True)), "ops": (Ops().callback,)}


@dataclass(frozen=True)
class Seen:
    """The calls of one change.

    old, new: what a call ran before the plan and after it, "direct", "ops", "direct + ops" or "nothing".
    between: the live writes (those to what a call reads or executes) in order, by what they are of, and what a call ran after each.
    after: what calls ran after each step, live or not.
    sets: what calls ran with each set of the live writes, each of which some order of them reaches.
    fixed: pairs of writes whose order matters: in the other order some call would run neither hook.
    halted: what calls ran that had begun before the plan, one for each instruction of the site and of ftrace's trampoline at which
        they were halted while it was carried out.
    overwritten: what the halted calls ran where the plan does not wait before it frees, and the freed memory is overwritten at
        once; "fault" if that ended a call.
    """

    old: str
    new: str
    between: tuple[tuple[str, str], ...]
    after: tuple[str, ...]
    sets: tuple[str, ...]
    fixed: tuple[tuple[str, str], ...]
    halted: tuple[str, ...]
    overwritten: tuple[str, ...]

    def wrong(self, ran: tuple[str, ...]) -> int:
        """How many of these calls ran neither what the old state runs nor what the new one does."""
        return sum(what not in (self.old, self.new) for what in ran)

    @property
    def back(self) -> bool:
        """Did a call after a step run the old again, after one that ran the new?"""
        return sum(a != b for a, b in itertools.pairwise((self.old, *self.after))) > 1


def seen(setup: Setup, change: str, near: bool) -> Seen:
    """Carry out one change on a kernel of this kind, calling all the while; near: of a target that the site reaches. Another
    function has a direct call throughout."""
    kernel, steps = _before(setup, change, near)
    old, after, between = _ran(kernel), [], []
    for step in kernel.stepwise(steps):
        after.append(_ran(kernel))
        if isinstance(step, Write) and step.granule != BYTE:
            between.append((_part(kernel, step), after[-1]))
    new = after[-1]
    kernel, steps = _before(setup, change, near)
    places = _halts(kernel)
    halted, overwritten = (_on_its_way(kernel, steps, places, overwrite) for overwrite in (False, True))
    sets, fixed = ordered(kernel, steps, {old, new})  # what those did to memory is undone
    return Seen(old, new, tuple(between), tuple(after), sets, fixed, tuple(halted), tuple(overwritten))


def _before(setup: Setup, change: str, near: bool) -> tuple[Kernel, list[Step]]:
    """A kernel just before a change, and the plan of that."""
    kernel = setup.kernel()
    kernel.attach(kernel.function(OTHER), Direct(far=True))
    names, moving = CHANGES[change]
    attached = {}
    for letter in names:
        (attached[letter],) = kernel.attach(kernel.function(FUNCTION), _request(letter, near))
    if moving.startswith("-"):
        return kernel, kernel.slowpath.unregister(attached[moving[1:]])
    return kernel, kernel.slowpath.register(_request(moving, near))[1]


def _request(letter: str, near: bool) -> Direct | Ops:
    return Direct(far=not near, filter=(FUNCTION,)) if letter == "d" else Ops(filter=(FUNCTION,))


def _ran(kernel: Kernel) -> str:
    """The hooks that a call runs now; "fault" if it does not come to its end."""
    try:
        return _told(kernel, kernel.call(FUNCTION, *ARGUMENTS, budget=BUDGET).executed)
    except TramplabError:
        return FAULT


def _told(kernel: Kernel, executed: Callable[[int], bool]) -> str:
    """Which of RUN's functions were executed, by their entry addresses."""
    ran = [what for what, names in RUN.items() if any(executed(kernel.image.address(name)) for name in names)]
    return " + ".join(ran) or "nothing"


def _part(kernel: Kernel, write: Write) -> str:
    """What a live write is of: "site", "word" (the callsite's), "own word" (the target's), "table" (direct_functions), or "list":
    that of ops, their filters, and what the common trampolines pass on."""
    site, address = kernel.function(FUNCTION).site, kernel.image.symbols
    if site.holds(write.address):
        return "site"
    if site.literal is not None and write.address in (site.literal, site.literal - POINTER):
        return "word" if write.address == site.literal else "own word"
    return "table" if "direct_functions" in address and write.address == kernel.image.address("direct_functions") else "list"


# -- every order of the live writes


def ordered(
    kernel: Kernel, steps: list[Step], right: set[str], every: bool = False
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """What calls run with each set of a plan's live writes, and the pairs of writes that must come in the plan's order so that
    every call runs what is right. Memory that no call can reach yet is written first; every: it is tried in all orders, too.
    """
    writes = [s for s in steps if isinstance(s, Write)]
    kernel.apply([w for w in writes if w.granule == BYTE and not every])
    live = [w for w in writes if w.granule != BYTE or every]
    was = [kernel.machine.read(w.address, len(w.data)) for w in live]
    ran = []
    for done in range(1 << len(live)):
        for n, w in enumerate(live):
            if not done or (done ^ done - 1) >> n & 1:  # what the last set had otherwise
                _store(kernel, w.address, w.data if done >> n & 1 else was[n])
        ran.append(_ran(kernel))
    passed = _passed({done for done, what in enumerate(ran) if what in right}, len(live))
    pairs = itertools.combinations(range(len(live)), 2)
    fixed = [(a, b) for a, b in pairs if not any(done >> b & 1 and not done >> a & 1 for done in passed)]
    return tuple(ran), tuple((_part(kernel, live[a]), _part(kernel, live[b])) for a, b in fixed)


def _passed(good: set[int], count: int) -> set[int]:
    """The sets of writes that some order of all of them passes through without leaving the good ones."""
    every = (1 << count) - 1
    forward, backward = {0} & good, {every} & good
    for done in sorted(good):
        if any(done >> n & 1 and done & ~(1 << n) in forward for n in range(count)):
            forward.add(done)
    for done in sorted(good, reverse=True):
        if any(not done >> n & 1 and done | 1 << n in backward for n in range(count)):
            backward.add(done)
    return forward & backward


# -- a call that has begun


def _halts(kernel: Kernel) -> int:
    """How many instructions a call begins with that are the site's or ftrace's trampoline's, before it calls or leaves."""
    steps = kernel.call(FUNCTION, *ARGUMENTS).steps
    return sum(1 for _ in itertools.takewhile(lambda step: _ahead(kernel, step.pc), steps))


def _on_its_way(kernel: Kernel, steps: list[Step], places: int, overwrite: bool) -> list[str]:
    """What a call runs that is halted while the whole plan but for its frees is carried out: for each of the first `places`
    instructions, at which it is halted. overwrite: overwrite what is freed.
    """
    changes = [(s.address, s.data) for s in steps if isinstance(s, Write)]
    changes += [(at, POISON * size) for at, size in _freed(kernel, steps)] if overwrite else []
    was = [(at, kernel.machine.read(at, len(data))) for at, data in changes]
    function, items = kernel.function(FUNCTION), []
    start, stack = kernel.passed(ARGUMENTS, {})
    for halted in range(places):
        kernel.machine.enter(start, stack)
        pc = function.address
        if halted:
            kernel.machine.step(kernel.machine.return_to, pc, halted)
            pc = kernel.machine.register(kernel.isa.pc)
        for at, data in changes:
            _store(kernel, at, data)
        try:
            items.append(_told(kernel, kernel.machine.run(pc, kernel.machine.return_to, BUDGET).tally.has))
        except TramplabError:
            boot.boot(kernel.machine, kernel.cpus[0])  # it may have ended with a guard held
            items.append(FAULT)
        for at, data in reversed(was):
            _store(kernel, at, data)
    return items


def _freed(kernel: Kernel, steps: list[Step]) -> list[tuple[int, int]]:
    """Addresses and sizes of the memory that a plan gives back: hashes, and places of ops."""
    size, pool = kernel.image.struct("ftrace_ops").size, kernel.image.address("lab_ops_pool")
    given = [s for s in steps if isinstance(s, Free)]
    hashes = [(s.what, s.owner.taken(s.what)) for s in given if isinstance(s.owner, Heap)]
    return hashes + [(pool + s.what * size, size) for s in given if isinstance(s.owner, OpsMemory)]


def _store(kernel: Kernel, address: int, data: bytes) -> None:
    (kernel.machine.poke if kernel.machine.is_text(address) else kernel.machine.write)(address, data)


def _ahead(kernel: Kernel, pc: int) -> bool:
    """Is a CPU there still on the way to a callback, a stub, or the function?"""
    name = kernel.names()(pc) or ""
    site = kernel.function(FUNCTION).site
    return site.entry <= pc < site.body or name.startswith(("ftrace_caller", "ftrace_find_rec_direct"))
