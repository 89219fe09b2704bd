"""The race explorer's search in Python, to hold search.c against."""

from collections.abc import Iterator

from tramplab.races.search.rows import IDLE_CODE, Rows
from tramplab.races.search.search import ALL_SEEN, FULL, WRONG, Searched


def search(rows: Rows, threads: int, most: int, alike: bool = True) -> Searched:
    """Visit all states, at most so many."""
    start = 0, (IDLE_CODE,) * threads
    depths = {start: 0}
    queue, transitions = [start], 0
    for state in queue:
        for moment, codes in _after(rows, state, alike):
            transitions += 1
            wrong = min(codes)
            if wrong < 0:
                return Searched(WRONG, len(queue), transitions, depths[state], -1 - wrong)
            after = moment, tuple(sorted(codes)) if alike else codes
            if after not in depths:
                if len(queue) == most:
                    return Searched(FULL, len(queue), transitions, depths[state], None)
                depths[after] = depths[state] + 1
                queue.append(after)
    return Searched(ALL_SEEN, len(queue), transitions, depths[queue[-1]], None)


def _after(rows: Rows, state: tuple[int, tuple[int, ...]], alike: bool) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The next states: a step of one of the threads, or the patcher's."""
    moment, codes = state
    for n, mine in enumerate(codes):
        if not (alike and mine in codes[:n]):
            for to in rows.steps[moment].get(mine, ()):
                yield moment, (*codes[:n], to, *codes[n + 1 :])
    for ahead in rows.after[moment]:
        if not any(c & 1 for c in codes) and not (rows.empty[ahead] and any(codes)):
            yield ahead, tuple(rows.carried[ahead][c] for c in codes)
