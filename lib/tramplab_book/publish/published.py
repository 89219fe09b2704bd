"""What others measured and published: data/published.csv, by id."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from msgspec import Meta, field

from tramplab.base.arguments import of_name
from tramplab.base.entries import Entry, IsaName, Text
from tramplab.base.errors import TramplabError

from ..places import facts

FILE = "published.csv"
#: Uses of a row: a study shows it; another row is checked with it; or it is kept for reference and never read.
_Use = Literal["shown", "checked", "reference"]
SHOWN, CHECKED, REFERENCE = get_args(_Use)
_TOTAL = re.compile(r"(.+)-r\d+-i\d+-total")

#: Units of which less is better, and those of rates.
_Cost = Literal[
    "ns", "ns/call", "s", "percent loss vs base", "B", "instructions", "cycles", "branches", "branch misses", "%"
]  # fmt: skip
_Rate = Literal["M ops/s", "K events/s", "tps", "percent", "calls (per run unit as printed)", "ops (as printed)"]


class Measurement(Entry, frozen=True):
    """One figure as published: on what machine and kernel, of what, and where it stands.

    message: the message-id of the mail, "" where the number is only in a commit.
    lower_is_better: is it a time, not a rate?
    use: one of the uses above.
    """

    id: Annotated[str, Meta(pattern="^[a-z0-9]+([-_][a-z0-9_]+)*$", description="an id is small letters and digits with hyphens")]
    topic: Literal[
        "call_ops", "direct_vs_fprobe", "trampoline", "fprobe_on_fgraph", "fprobe", "bench_trig", "objpool", "bpf_getpid",
        "attach_time",
    ]  # fmt: skip
    isa: IsaName
    machine: Text
    kernel: Text
    variant: Text
    value: Annotated[float, Meta(ge=0, lt=1e15, description="a value is a number like 5.84")]
    unit: Literal[_Cost, _Rate]
    lower_is_better: bool
    source: Text
    message: Annotated[str, Meta(pattern=r"^([^<>@\s]+@[^<>@\s]+)?$", description="a message-id stands without < and >")] = field(
        name="message_id"
    )
    commit: Annotated[str, Meta(pattern="^([0-9a-f]{7,12})?$", description="a commit is written with 12 digits")]
    url: Annotated[str, Meta(pattern=r"^(https://\S+)?$", description="an address is written like https://example.org")]
    use: _Use

    def __post_init__(self) -> None:
        if self.lower_is_better == (self.unit in get_args(_Rate)):
            better = "more" if self.lower_is_better else "less"
            raise ValueError(f"of {self.unit} {better} is better, so lower_is_better is {not self.lower_is_better}")
        if not self.message and not self.commit:
            raise ValueError("a message_id or a commit tells where it can be looked up")

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
    """Every measurement by id, in the order of the file; raises TramplabError for a file that is not valid."""
    found: dict[str, Measurement] = {}
    for one in facts(FILE, tuple[Measurement, ...], strict=False):
        if one.id in found:
            raise TramplabError(f"{FILE}: the id {one.id} is given twice; an id is for one measurement.")
        found[one.id] = one
    _owed(found)
    return found


def get(measurement_id: str) -> Measurement:
    """One measurement by id; raises TramplabError with near matches."""
    return of_name("published measurement", measurement_id, read())


def _owed(found: Mapping[str, Measurement]) -> None:
    """Raise TramplabError unless each source is one mail and one commit, and overheads are what their tables' totals say."""
    sources: dict[str, Measurement] = {}
    for one in found.values():
        first = sources.setdefault(one.source, one)
        if (one.message, one.commit) != (first.message, first.commit):
            raise TramplabError(f"{FILE}: {one.id} has another mail or commit than {first.id}, and the same source.")
    for total in found.values():
        if total.use == CHECKED:
            _adds_up(total, found)


def _adds_up(total: Measurement, found: Mapping[str, Measurement]) -> None:
    """Raise TramplabError unless a table's total, less that of an untraced call, is the overhead beside it, but for rounding."""
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
