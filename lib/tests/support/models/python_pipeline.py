"""The model of a core in Python, thirty times slower than pipeline.c, to hold that against; pipeline.py says what is modelled."""

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator

from tramplab.estimate.lower import LoweredProgram
from tramplab.estimate.pipeline import REPETITIONS, mispredicted
from tramplab.lab.call import RecordedCall

#: No more repetitions are needed where the last ones took the same times: four alike, or two groups of four.
_ALIKE = ((1, 4), (4, 2))


def cycles(program: LoweredProgram, call: RecordedCall, in_order: bool) -> float:
    """As pipeline.cycles() has it."""
    history: list[list[int]] = []
    for now in clocks(program, call, in_order):
        history.append(now)
        for group, times in _ALIKE:
            ends = history[-1 - group * times :: group]
            took = [_passed(before, after) for before, after in itertools.pairwise(ends)]
            if len(ends) == times + 1 and all(t == took[0] for t in took):
                return max(took[0]) / group
    half = REPETITIONS // 2
    return max(_passed(history[half - 1], history[-1])) / (REPETITIONS - half)


def clocks(program: LoweredProgram, call: RecordedCall, in_order: bool) -> Iterator[list[int]]:
    """All clocks of the model after each of REPETITIONS repetitions."""
    return (_in_order if in_order else _out_of_order)(program, mispredicted(call, program.values))


def _passed(before: list[int], after: list[int]) -> list[int]:
    return [b - a for a, b in zip(before, after, strict=True)]


class _Ports:
    """The operations of each cycle, and whether the ports are enough for one more."""

    def __init__(self) -> None:
        self._busy: dict[int, tuple[int, ...]] = {}
        # ports -> a cycle without one of them -> a later one that may have one
        self._later: dict[int, dict[int, int]] = defaultdict(dict)

    def take(self, ports: int, cycle: int) -> int:
        """Take one of the ports for one cycle, the first in which one can be had; returns that cycle."""
        busy, later = self._busy, self._later[ports]
        passed = []
        while (taken := _with(busy.get(cycle, ()), ports) if cycle not in later else None) is None:
            passed.append(cycle)
            cycle = later.get(cycle, cycle + 1)
        busy[cycle] = taken
        for full in passed:  # cycles only fill up, so nobody needs to look at these again
            later[full] = cycle
        return cycle


@functools.cache
def _with(taken: tuple[int, ...], ports: int) -> tuple[int, ...] | None:
    """The operations of a cycle with one more; None if no assignment gives each of them a port of its own."""
    wanted = tuple(sorted((*taken, ports)))
    holders: dict[int, int] = {}  # port -> which of those wanted has it
    return wanted if all(_place(wanted, which, holders, set()) for which in range(len(wanted))) else None


def _place(wanted: tuple[int, ...], which: int, holders: dict[int, int], tried: set[int]) -> bool:
    """Give one of those wanted a port, and its holder another one if need be."""
    for port in range(wanted[which].bit_length()):
        if wanted[which] >> port & 1 and port not in tried:
            tried.add(port)
            if port not in holders or _place(wanted, holders[port], holders, tried):
                holders[port] = which
                return True
    return False


class _FrontEnd:
    """Fetches instructions and hands out slots, with a queue in between: taken branches stop only the fetching."""

    def __init__(self, fetch: int, width: int) -> None:
        self._fetch, self._width = fetch, width
        self.fetched, self._left = 0, fetch  # the cycle fetching is in, and what it can still fetch there
        self.cycle, self._room = 0, width  # the cycle of the last slot, and the slots left there

    def fetch(self, slots: int) -> int:
        """Fetch an instruction of so many slots; returns the first cycle in which it can have one."""
        if slots <= self._left:
            self._left -= slots
        else:
            self.fetched, self._left = _spend(slots, self.fetched, self._left, self._fetch)
        first = self.cycle if self._room else self.cycle + 1
        return first if first > self.fetched else self.fetched

    def hand_out(self, slots: int, earliest: int) -> int:
        """Give the fetched instruction its slots, not before a cycle; returns the cycle of the last of them."""
        if earliest > self.cycle:
            self.cycle, self._room = earliest, self._width
        if slots <= self._room:
            self._room -= slots
        else:
            self.cycle, self._room = _spend(slots, self.cycle, self._room, self._width)
        return self.cycle

    def turn(self, bubble: int) -> None:
        """Fetch elsewhere, after a taken branch."""
        self.fetched, self._left = self.fetched + 1 + bubble, self._fetch

    def restart(self, cycle: int) -> None:
        """Fetch nothing before a later cycle."""
        self.fetched, self._left = max(cycle, self.fetched + 1), self._fetch

    def stall(self, cycles: int) -> None:
        """Hand out nothing for some cycles."""
        self.cycle, self._room = self.cycle + cycles, self._width


def _spend(amount: int, cycle: int, left: int, per_cycle: int) -> tuple[int, int]:
    """Spend more than is left in a cycle, from the following ones too; returns the last of them and what is left there."""
    short = amount - left
    return cycle - (-short // per_cycle), -short % per_cycle


def _out_of_order(program: LoweredProgram, missed: Iterable[frozenset[int]]) -> Iterator[list[int]]:
    """Per repetition, all clocks at its end; long because a step is one pass over all clocks, in the order of the pipeline.

    missed: per repetition, the steps whose return is mispredicted.

    This loop is most of what an estimate takes: numbers are compared in place, which is twice as fast as max(), and an item is
    taken apart at once.
    """
    v, use = program.values, program.accesses
    window, buffer, per_cycle = v["window"], v["store_buffer"], v["stores_per_cycle"]
    loads_wait, locks_wait, restart_after = v["loads_wait"], v.get("locks_wait"), v["mispredict"]
    load_ports, store_ports, alu_ports, data_ports = use["load"], use["store"], use["alu"], use.get("store_data")
    front, take = _FrontEnd(v["fetch"], v["width"]), _Ports().take
    ready = [0] * len(program.numbers)  # from when on a register's value can be used
    done = [0] * window  # per instruction: it and everything older is finished
    drained = [0] * max(buffer, per_cycle)  # per store: it is in the cache
    written = [0] * program.stores  # per store of a repetition: its data is there
    addresses_known = atomic_done = finished = 0
    for misses in missed:
        before, written = written, []
        for (
            step, slots, bubble, keeps, address, reads, writes, bumps, ports, latency, loads, load_cycles, stores, store_cycles,
            barrier, atomic, _,
        ) in program.items:  # fmt: skip
            earliest, free = front.fetch(slots), done[-window]
            earliest = max(earliest, free)
            if stores and drained[stores - buffer - 1] > earliest:
                earliest = drained[stores - buffer - 1]
            if barrier and finished + barrier > earliest:
                earliest = finished + barrier
            cycle = front.hand_out(slots, earliest)

            at = value = cycle + 1
            for register in address:
                at = max(at, ready[register])
            if loads:
                issue = addresses_known if loads_wait and addresses_known > at else at
                if locks_wait and atomic_done > issue:
                    issue = atomic_done
                for _ in range(load_cycles):
                    issue = take(load_ports, issue)
                for written_by, forward, after in loads:
                    value = max(value, issue + after)
                    for store in written_by:
                        arrives = (written[store] if store >= 0 else before[~store]) + forward
                        value = max(value, arrives)
            for register in reads:
                value = max(value, ready[register])
            if atomic:
                value = atomic_done = max(value, atomic_done) + latency
            elif ports:
                value = take(ports, value) + latency

            for register in writes:
                ready[register] = value
            for register in bumps:
                ready[register] = take(alu_ports, at) + 1
            finished = max(finished, value)
            if stores:
                for _ in range(store_cycles):
                    at = take(store_ports, at)
                if at >= addresses_known:
                    addresses_known = at + 1
                stored_at = take(data_ports, value) if data_ports else value
                finished = max(finished, at + 1, stored_at + 1)
                for _ in range(stores):
                    written.append(value)
                    drained.append(max(finished, drained[-per_cycle] + 1))
            done.append(finished)

            if step in misses:
                front.restart(value + restart_after)
            elif bubble >= 0:
                front.turn(bubble)
            if keeps:
                front.stall(keeps)
        yield [front.cycle, front.fetched, finished, drained[-1], addresses_known, atomic_done, *ready, *written]


def _in_order(program: LoweredProgram, missed: Iterable[frozenset[int]]) -> Iterator[list[int]]:
    """Per repetition, all clocks at its end, missed as above; long because a step is one pass over all clocks.

    A core with a late stage runs what lacks its operands `late_stage` cycles later, in the same pipe, so that nothing
    waits: a value has a cycle from which on the early stage (and every address) can have it, and one for the late stage.
    """
    v, load_ports, store_ports = program.values, program.accesses["load"], program.accesses["store"]
    late, restart_after = v["late_stage"], v["mispredict"]
    front, take = _FrontEnd(v["width"], v["width"]), _Ports().take
    ready, ready_late = [0] * len(program.numbers), [0] * len(program.numbers)
    written = [0] * program.stores
    finished = 0
    for misses in missed:
        before, written = written, []
        for (
            step, slots, bubble, _, address, reads, writes, bumps, ports, latency, loads, load_cycles, stores, store_cycles,
            barrier, _, can_be_late,
        ) in program.items:  # fmt: skip
            issue = front.fetch(slots)
            if barrier and finished + barrier > issue:
                issue = finished + barrier
            for register in address:
                issue = max(issue, ready[register])
            operands = ready_late if can_be_late else ready
            for register in reads:
                issue = max(issue, operands[register])
            if ports:
                issue = take(ports, issue)
            for _ in range(load_cycles if load_ports else 0):
                issue = take(load_ports, issue)
            for _ in range(store_cycles if store_ports else 0):
                issue = take(store_ports, issue)
            front.hand_out(slots, issue)

            delay = late if can_be_late and any(ready[register] > issue for register in reads) else 0
            value = issue + delay + latency
            for written_by, forward, after in loads:
                value = max(value, issue + after + latency)
                for store in written_by:
                    arrives = (written[store] if store >= 0 else before[~store]) + forward
                    value = max(value, arrives)
            for _ in range(stores):
                written.append(value)
            for register in writes:
                ready[register] = value
                ready_late[register] = value - (late if loads or delay else 0)
            for register in bumps:
                ready[register] = ready_late[register] = issue + 1
            finished = max(finished, value)

            if step in misses:
                front.restart(value + restart_after)
            elif bubble >= 0:
                front.restart(issue + 1 + bubble)
        yield [front.cycle, finished, *ready, *ready_late, *written]
