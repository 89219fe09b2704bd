"""A plan as moments: what each of its steps does for what CPUs see, fetch and load, and which threads it waits for.

Data ORDERED: every CPU sees the patcher's stores in program order, and the moments come one after the other. UNORDERED: on arm64
and riscv64 stores become visible in any order up to the next fence, but for those to the same bytes (Arm ARM, B2.3; RISC-V
unprivileged ISA, RVWMO). There is a moment for each set of them that may be visible then. x86-64 keeps stores in order (SDM
volume 3, 9.2.2). Every wait is a fence, also one that is left out, since the slow path takes and releases locks around it. Only
flush_icache_all() is none; since v6.16 it has one before it (ca358692de41).

What a wait does for text depends on the ISA. x86-64: any interrupt or exception serialises (SDM volume 3, 9.3). arm64: entering
and leaving an exception is a context synchronisation event (Arm ARM, B2.4.4 and glossary), after which a CPU finds what an IC
IVAU on any CPU has made visible; by itself neither that nor an ISB here does anything for the pipelines elsewhere. riscv64:
only FENCE.I does, on the hart that executes it (unprivileged ISA, Zifencei). """

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...base.errors import TramplabError, unknown
from ...ftrace.steps import FENCES, Free, Scope, Sync, Wait, Write
from ..subject import FixUp, Planned, overlap
from .moments import COUNTED, DATA, EVERYBODY, INSIDE, ORDERED, UNORDERED, Moment

#: The waits in which every CPU takes an interrupt or switches tasks.
_TASKS = (Sync.RCU_TASKS, Sync.CALL_RCU_TASKS, Sync.RCU_TASKS_RUDE, Sync.RCU)
#: The waits after which every CPU executes text as it was written before.
SYNCHRONISES = {
    "x86_64": frozenset({Sync.TEXT_POKE, Sync.FTRACE_IPI, *_TASKS, Sync.STOP_MACHINE}),
    "arm64": frozenset({Sync.FTRACE_IPI, Sync.KICK, *_TASKS, Sync.STOP_MACHINE}),
    "riscv64": frozenset({Sync.FENCE_I, Sync.FLUSH_ICACHE}),
}
#: ISA -> waits that make text visible to all CPUs: what was written since the wait before, and what was written at the same places
#: earlier. Nothing else is found by a CPU that looks again. On other ISAs text is visible at once.
PUBLISHES = {"arm64": frozenset({Sync.IC_IVAU})}
#: The waits for an interrupt that each CPU takes: none does as long as it has interrupts off.
_INTERRUPTS = frozenset({Sync.TEXT_POKE, Sync.FTRACE_IPI, Sync.FLUSH_ICACHE, Sync.KICK})
#: The waits until every CPU has switched tasks: without preemption nobody is then where it was.
_SWITCHES = frozenset({Sync.RCU_TASKS_RUDE, Sync.RCU})
#: ISAs on which every CPU refetches by itself some day, as interrupts have it do.
BY_ITSELF = ("x86_64", "arm64")
#: Bytes; a longer write makes code where nobody is yet, and is taken as one step.
_LONGEST = 16
#: ISAs on which stores stay in order, also with UNORDERED.
_TSO = ("x86_64",)
#: Stores between two fences at most that may become visible in any order: of more there are too many sets.
_MOST = 14
#: The wait for other CPUs that orders no stores.
_NO_FENCE = frozenset({Sync.FLUSH_ICACHE})


@dataclass(frozen=True)
class _Store:
    """A store that need not be visible yet; before: the mask of those that every CPU sees first."""

    number: int
    write: Write
    before: int


@dataclass
class _Plan:
    """The moments of a plan that is gone through.

    ends: the moments that the patcher can be at: several where not all of its stores need be visible.
    stores: those since the last fence.
    releases: is the next store one that every CPU sees after all that came before it?
    text: the mask of stores of text so far.
    """

    isa: str
    preemptible: bool
    masks: bool
    unordered: bool
    made: list[Moment] = field(default_factory=lambda: [Moment(0, None, "", 0)])
    ends: list[int] = field(default_factory=lambda: [0])
    stores: list[_Store] = field(default_factory=list)
    releases: bool = False
    text: int = 0
    stopped: bool = False

    def __post_init__(self) -> None:
        self.hidden = Hidden(self.isa)

    def leave_out(self, number: int, step: Planned) -> None:
        """Add what follows if a step is left out."""
        if not isinstance(step, Wait) or step.sync not in (*FENCES, *_NO_FENCE):
            self.fence()
        self._mark(number)
        if isinstance(step, Wait):
            self.hidden.passed(step)
            if self.stopped and resumes(step):  # CPUs go on all the same, with what they have
                self._then(None, "every CPU goes on", frozen=False)
                self.stopped = False

    def take(self, number: int, step: Planned) -> None:
        """Add the moments of a step that is taken."""
        half = isinstance(step, Write) and step.text and not step.atomic and len(step.data) <= _LONGEST
        if isinstance(step, Write) and step.text:
            self.hidden.write(number, step)
            self.text |= 1 << number
        if isinstance(step, Write) and self.unordered and not half:
            self._store(number, step)
        elif isinstance(step, (Write, Free, FixUp)):
            self.fence()
            if half:
                self._then(step, f"begins to {step.why}", during=step)
            self._then(step, step.why, 1 << number)
        elif step.sync in FENCES:
            self._order(number, step)
        else:
            if step.sync in _NO_FENCE:
                self._drain()
            else:
                self.fence()
            self._wait(1 << number, step)

    def fence(self) -> None:
        """Have every CPU see all stores so far."""
        self._drain()
        pending = sum(1 << s.number for s in self.stores)
        self.ends = [n for n in self.ends if not pending & ~self.made[n].done]
        self.stores = []

    def finished(self) -> list[Moment]:
        """All moments, once every step is taken."""
        self.fence()
        if self.stopped:
            self._then(None, "every CPU goes on", frozen=False)
        if self.isa in BY_ITSELF:
            self._then(None, "every CPU has taken an interrupt since", refetched=True)
        return self.made

    # inside

    def _then(self, step: Planned | None, why: str, done: int = 0, refetched: bool = False, **more: Any) -> None:
        """Add the next moment. refetched: has every CPU looked at its text again then? more: other fields of it."""
        found: dict[tuple[int, int], int] = {}
        horizons: dict[int, int] = {}  # CPUs that refetch with the same text visible have the same
        for at in self.ends:
            last = self.made[at]
            horizon, unseen = last.horizon, last.unseen
            if refetched:
                horizon, unseen = horizons.setdefault(last.done & self.text, len(self.made)), self.hidden.steps()
            key = last.done | done, horizon
            if key not in found:
                found[key] = len(self.made)
                others = refetched or (isinstance(step, Wait) and step.sync.scope is not Scope.THIS_CPU)
                loads = len(self.made) if others else last.loads
                given: dict[str, Any] = {"horizon": horizon, "loads": loads, "unseen": unseen, "frozen": last.frozen}
                self.made.append(Moment(key[0], step, why, **given | more))
            self._lead(at, found[key])
        self.ends = list(found.values())

    def _lead(self, at: int, to: int) -> None:
        self.made[at] = replace(self.made[at], after=(*self.made[at].after, to))

    def _mark(self, number: int) -> None:
        """Take a step as done that has no moment of its own."""
        for at in self.ends:
            self.made[at] = replace(self.made[at], done=self.made[at].done | 1 << number)

    def _store(self, number: int, write: Write) -> None:
        if len(self.stores) == _MOST:
            raise TramplabError(f"more than {_MOST} stores without a fence between them are too many to take in any order.")
        earlier = [s for s in self.stores if self.releases or _in_order(s.write, write)]
        self.stores.append(_Store(number, write, sum(1 << s.number for s in earlier)))
        self.releases = False

    def _order(self, number: int, step: Wait) -> None:
        """Take a fence; with arm64's store-release only the next store has to wait (Arm ARM, B2.3)."""
        if step.sync is Sync.RELEASE and self.isa == "arm64":
            self.releases = True
        else:
            self.fence()
        self._mark(number)

    def _drain(self) -> None:
        """Add a moment for each set of the pending stores that may be visible, as they become so one after the other."""
        places = {(self.made[at].done, self.made[at].horizon): at for at in self.ends}
        todo = sorted(places, key=lambda key: (key[0].bit_count(), places[key]))
        for done, horizon in todo:  # grows
            for store in self.stores:
                key = done | 1 << store.number, horizon
                if done >> store.number & 1 or store.before & ~done:
                    continue
                at = places[done, horizon]
                if key not in places:
                    places[key] = len(self.made)
                    todo.append(key)
                    last, only = self.made[at], store.write if len(self.stores) == 1 else None
                    self.made.append(Moment(key[0], only, "", horizon, last.loads, last.unseen, last.frozen))
                self._lead(at, places[key])
        self.ends = sorted(places.values())

    def _wait(self, done: int, step: Wait) -> None:
        scope = step.sync.scope
        refetched = step.sync in SYNCHRONISES[self.isa]
        if scope is Scope.STOPPED:
            if self.masks:
                self._then(step, f"begins to wait: {step.why}", notes=EVERYBODY, stopping=True)
            self.stopped = True
            self._then(step, step.why, done, frozen=True, empty=not self.preemptible)
        elif step.sync is Sync.PERCPU_REF:
            self._then(step, f"begins to wait: {step.why}", notes=COUNTED)
            self._then(step, step.why, done)
        elif scope is Scope.EVERY_TASK or (not self.preemptible and step.sync in _SWITCHES):
            # its grace period begins with synchronize_rcu(), so every CPU has taken an interrupt or switched tasks by then
            self._then(step, f"begins to wait: {step.why}", refetched=refetched, notes=INSIDE)
            self._then(step, step.why, done, refetched)
        elif self.masks and step.sync in _INTERRUPTS:
            self._then(step, f"begins to wait: {step.why}", notes=EVERYBODY)
            self._then(step, step.why, done, refetched)
        elif scope in (Scope.EVERY_CPU, Scope.THIS_CPU) and step.sync not in (Sync.RCU, Sync.CALL_RCU):
            self.hidden.publish(step)
            more = {"frozen": False} if resumes(step) else {}
            self._then(step, step.why, done, refetched, **more)
            self.stopped = self.stopped and not resumes(step)
        else:
            raise TramplabError(f"the explorer does not know what {step.sync.kernel} waits for: take a plan without it.")


def _in_order(earlier: Write, later: Write) -> bool:
    """Does every CPU see one store before the other, whatever is between them? Text is taken so too."""
    return (earlier.text and later.text) or overlap((earlier.address, len(earlier.data)), (later.address, len(later.data)))


def moments(
    isa: str,
    steps: Sequence[Planned],
    preemptible: bool,
    masks: bool,
    dropped: Collection[int] = (),
    data: str = ORDERED,
) -> list[Moment]:
    """The moments of a plan, from before the first step to after the last.

    preemptible: see Subject.
    masks: do threads take breakpoints with interrupts off?
    dropped: numbers of steps that are left out.
    data: one of DATA.

    Raises TramplabError for a step whose wait is not modelled, and for too many stores without a fence.
    """
    if data not in DATA:
        raise unknown("data model", data, DATA)
    plan = _Plan(isa, preemptible, masks, data == UNORDERED and isa not in _TSO)
    for number, step in enumerate(steps):
        if number in dropped and isinstance(step, Write):
            raise TramplabError(f"only a wait, or what gives something back, can be left out of a plan, not: {step.why}.")
        (plan.leave_out if number in dropped else plan.take)(number, step)
    return plan.finished()


class Hidden:
    """The writes of text so far that a CPU need not find when it looks again."""

    def __init__(self, isa: str) -> None:
        self._publishes = PUBLISHES.get(isa, frozenset())
        self._writes: dict[int, Write] = {}
        self._since: list[Write] = []  # the last wait of that kind

    def write(self, number: int, step: Write) -> None:
        """Add a write of text, by its number in the plan."""
        if self._publishes:
            self._writes[number] = step
            self._since.append(step)

    def publish(self, step: Wait) -> None:
        """Take a wait, which may make visible what was written since the last one."""
        if step.sync in self._publishes:
            made = [(w.address, len(w.data)) for w in self._since]
            self._writes = {n: w for n, w in self._writes.items() if not any(overlap((w.address, len(w.data)), m) for m in made)}
            self._since = []

    def passed(self, step: Wait) -> None:
        """Take such a wait that is left out: what was written since the last one stays hidden."""
        if step.sync in self._publishes:
            self._since = []

    def steps(self) -> frozenset[int]:
        """The numbers of the writes that are hidden now."""
        return frozenset(self._writes)


def resumes(step: Wait) -> bool:
    """Does it end a stop of the machine?"""
    return step.sync is Sync.FENCE_I
