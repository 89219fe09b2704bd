"""A small model of a core: how many cycles one repetition of a call takes when it is made over and over.

What is modelled. Instructions are fetched and then given slots in program order; a taken branch ends what is fetched in
its cycle, and a mispredicted return (see returnstack.py) ends fetching until it is resolved and `mispredict` cycles have
passed. Out of order, an instruction waits for its operands and for a free port, and for room in the window and in the
store buffer; in order, everything younger waits with it. A load whose bytes an earlier store wrote has them `forward`
cycles after the store's data, or from the cache, whichever is later.

What is not. All branches but returns are predicted; every access hits the first-level cache; no limits on schedulers, on
retiring, on fetching across lines, on what waits between fetching and the slots. Ports serve what is older first. As on
real cores that is not always the best order, so a faster part can now and then make a call a cycle slower.

pipeline.c is this model; tests hold it to another one in Python (lib/tests/support/models/python_pipeline.py).
"""

from __future__ import annotations

import functools
import itertools

from ..lab.call import RecordedCall
from . import compiled_pipeline
from .lower import LoweredProgram
from .returnstack import steady

#: Repetitions at most; fewer where the last ones took the same times.
REPETITIONS = 40
#: The parameters that say which returns are mispredicted, and what that costs; they matter nowhere else.
OF_RETURNS = frozenset(["return_stack", "return_stack_checked", "mispredict"])
#: The parameters that are looked up here; the others are in the lowered program.
PARAMETERS = frozenset(
    "width fetch window store_buffer stores_per_cycle loads_wait locks_wait late_stage mispredict return_stack "
    "return_stack_checked".split()
)


def cycles(program: LoweredProgram, call: RecordedCall, in_order: bool) -> float:
    """Cycles per repetition of a lowered call in the steady state.

    Looked at are all clocks of the model and not only its end: the slowest chain of instructions may start early and take
    many repetitions until it is the one that everything waits for.
    """
    return compiled_pipeline.cycles(program, mispredicted(call, program.values), in_order)


def mispredicted(call: RecordedCall, values: dict[str, int]) -> tuple[frozenset[int], ...]:
    """Per repetition, the steps whose return is mispredicted with these parameters."""
    return _mispredicted(call, values["return_stack"], bool(values["return_stack_checked"]))


@functools.lru_cache(maxsize=1024)
def _mispredicted(call: RecordedCall, entries: int, checked: bool) -> tuple[frozenset[int], ...]:
    return tuple(itertools.islice(steady(call, entries, checked), REPETITIONS))
