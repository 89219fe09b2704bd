"""When is a time worth a conclusion? When it was met again: in several windows, apart in time, to within a few percent.

Whatever shares a core makes times longer, never shorter, so the least of many is the core's own; but only if a quiet moment
was met. One window cannot tell: where something is always at work, its least time is wrong and looks like any other. That
the least of three windows agree does not prove it either, but what comes and goes is found out.

And some calls have several speeds on a quiet core, in which they stay for a while: by what its predictors hold, say. The least
of these is met by chance. So a hook must also be steady: the typical batch may take longer than the least one only as far as
the unhooked call's does, and a little more.
"""

from __future__ import annotations

from collections.abc import Sequence

#: The number of windows that must agree, and within which fraction of a hook's added time in cycles.
NEEDED, WITHIN = 3, 0.02
#: How much more than the unhooked call's a hook's median may exceed its least time.
STEADY = 0.1


def apart(minima: Sequence[float]) -> float:
    """How far the NEEDED least of the windows' minima are apart; infinite where there are fewer windows.

    >>> apart([5.0, 4.0, 4.5, 9.0]), apart([4.0, 4.0])
    (1.0, inf)
    """
    least = sorted(minima)[:NEEDED]
    return least[-1] - least[0] if len(least) == NEEDED else float("inf")


def agreed(hook: Sequence[float], clock: Sequence[float], baseline: Sequence[float] | None = None) -> bool:
    """Do the windows agree on what a hook adds to the unhooked call; or, without a baseline, on what a call takes?

    hook, clock, baseline: the least time of each window, in the same unit: of a call with the hook, of an addition, which
    is a cycle, and of a call without the hook. All may be off, and what they are off by adds up.

    >>> none, clock = [1.5, 1.5, 1.5], [0.25, 0.25, 0.25]
    >>> agreed([5.0, 5.05, 5.01], clock, none), agreed([5.0, 5.1, 5.01], clock, none), agreed(none, clock)
    (True, False, True)
    """
    value, off = min(hook), apart(hook)
    if baseline is not None:
        value, off = value - min(baseline), off + apart(baseline)
    return value > 0 and min(clock) > 0 and off / value + apart(clock) / min(clock) <= WITHIN


def steady(least: float, median: float, base_least: float, base_median: float) -> bool:
    """Has a call one speed? From its batches' least and median times, and the unhooked call's in the same rounds.

    >>> steady(4.0, 4.2, 1.5, 1.5), steady(4.0, 5.0, 1.5, 1.5), steady(4.0, 8.0, 1.5, 3.0)
    (True, False, True)
    """
    return median * base_least <= (1 + STEADY) * least * base_median
