"""What others measured and published: data/published.csv, by id."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass

from ..errors import TramplabError, unknown
from ..paths import data_file

FILE = "published.csv"


@dataclass(frozen=True)
class Measurement:
    """One figure as published: on what machine and kernel, of what, and where it stands.

    message: the message-id of the mail, "" where it is only in a commit. lower_is_better: a time, not a rate.
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
    """Every measurement by id, in the order of the file."""
    with data_file(FILE).open(encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f))
    return {
        r["id"]: Measurement(
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
        )
        for r in rows
    }


def get(measurement_id: str) -> Measurement:
    """One measurement by id; raises TramplabError with near matches."""
    try:
        return read()[measurement_id]
    except KeyError:
        raise unknown("published measurement", measurement_id, read()) from None
