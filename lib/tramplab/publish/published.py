"""What others measured and published: data/published.csv, by id."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..base.arguments import of_name
from ..base.errors import TramplabError
from ..base.schema import facts

FILE = "published.csv"
#: What a row is for: a study shows it; another row is checked with it; or it is kept for reference and never read.
SHOWN, CHECKED, REFERENCE = "shown", "checked", "reference"
_TOTAL = re.compile(r"(.+)-r\d+-i\d+-total")


@dataclass(frozen=True)
class Measurement:
    """One figure as published: on what machine and kernel, of what, and where it stands.

    message: the message-id of the mail, "" where it is only in a commit. lower_is_better: a time, not a rate. use: what it is
    there for.
    """

    id: str
    topic: str
    isa: str
    machine: str
    kernel: str
    variant: str
    value: float
    unit: str
    lower_is_better: bool
    source: str
    message: str
    commit: str
    use: str

    @property
    def ns(self) -> float:
        """Nanoseconds per event: of a time as it stands, of a rate the inverse. Raises TramplabError for other units.

        >>> get("x86-jmp-before-fentry").ns
        5.84
        """
        if self.unit in ("ns", "ns/call"):
            return self.value
        if self.unit in _PER_SECOND:
            return round(1e9 / (self.value * _PER_SECOND[self.unit]), 2)
        raise TramplabError(f"{self.id} is in {self.unit}, which says nothing about one call.")


_PER_SECOND = {"M ops/s": 1e6, "K events/s": 1e3}


@functools.cache
def read() -> dict[str, Measurement]:
    """Every measurement by id, in the order of the file; raises TramplabError for a file that is not as it should be."""
    found: dict[str, Measurement] = {}
    for r in facts(FILE, "published"):
        if r["id"] in found:
            raise TramplabError(f"{FILE}: the id {r['id']} is given twice; an id is for one measurement.")
        found[r["id"]] = Measurement(
            r["id"],
            r["topic"],
            r["isa"],
            r["machine"],
            r["kernel"],
            r["variant"],
            float(r["value"]),
            r["unit"],
            r["lower_is_better"] == "True",
            r["source"],
            r["message_id"],
            r["commit"],
            r["use"],
        )
    _owed(found)
    return found


def get(measurement_id: str) -> Measurement:
    """One measurement by id; raises TramplabError with near matches."""
    return of_name("published measurement", measurement_id, read())


def _owed(found: Mapping[str, Measurement]) -> None:
    """What rows owe each other: a source is one mail and one commit, and overheads are what their tables' totals say."""
    sources: dict[str, Measurement] = {}
    for one in found.values():
        first = sources.setdefault(one.source, one)
        if (one.message, one.commit) != (first.message, first.commit):
            raise TramplabError(f"{FILE}: {one.id} has another mail or commit than {first.id}, and the same source.")
    for total in found.values():
        if total.use == CHECKED:
            _adds_up(total, found)


def _adds_up(total: Measurement, found: Mapping[str, Measurement]) -> None:
    """A total of a table, less that of a call which nobody traces, is the overhead beside it, to within what rounding makes."""
    table, base = _TOTAL.fullmatch(total.id), _TOTAL.sub(r"\1-r0-i0-total", total.id)
    beside = f"{total.id.removesuffix('total')}overhead"
    if not table or base not in found or (total.id != base and beside not in found):
        raise TramplabError(f"{FILE}: {total.id} is to be checked, and has no {base} or no {beside} to be checked with.")
    if total.id == base:
        return
    values = [found[name].value for name in (total.id, base, beside)]
    step = 1 if all(value.is_integer() for value in values) else 0.01
    if abs(values[0] - values[1] - values[2]) > 1.5 * step:
        said = "{:g} less {:g} is not {:g}".format(*values)
        raise TramplabError(f"{FILE}: {beside}: {said}; put right what is mistyped, or keep the total for reference.")
