"""Native times as rows, with the circumstances they were taken under; saved as JSON and read again."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from ..base import documents
from ..base.entries import Entry, Natural, Text, checked
from ..base.errors import TramplabError
from ..base.paths import write_whole
from ..base.width import WIDTH
from .agreement import NEEDED, STEADY, WITHIN

#: The differences between native times and a kernel's, on every ISA.
LIMITS = (
    "one thread calls the function again and again: caches and predictors are warm, and calls overlap as far as the core "
    "lets them",
    "it runs in user mode: no entry into the kernel, no interrupts off, no mitigations of the kernel's own",
    "nobody else runs the text while it is patched",
)
_FORMAT = 3
#: How far a difference of two times may be from the one that is kept.
_ROUNDED = 2e-4


_Time = Annotated[float, Meta(gt=0, description="a call takes more than 0 ns")]
_Cycle = Annotated[float, Meta(gt=0, description="a cycle takes more than 0 ns")]
_Counter = Annotated[float, Meta(ge=0)]


class _Row(Entry, frozen=True):
    """A row as a file has it: times, counters where they are permitted, and the fields of a trampolines.shapes.Shape."""

    hook: Text
    code: Annotated[str, Meta(pattern="^[0-9a-f]{16}$", description="code is 16 hex digits")]
    ns_min: _Time
    ns_q1: _Time
    ns_median: _Time
    ns_q3: _Time
    ns_over: float
    cycles_over: float
    ratio_direct: float | None
    windows: Annotated[tuple[float | None, ...], Meta(min_length=1)]
    steady: bool
    agreed: bool
    instructions: _Counter = 0
    cycles: _Counter = 0
    branch_misses: _Counter = 0
    saves: Natural | None = None
    nested: Natural | None = None
    balanced: bool | None = None


class _File(Entry, frozen=True):
    """A saved result. provenance: as the machine told it."""

    format: int
    rows: Annotated[tuple[_Row, ...], Meta(min_length=1)]
    clock: Annotated[tuple[_Cycle, ...], Meta(min_length=1)]
    warnings: tuple[str, ...]
    failures: tuple[str, ...]
    provenance: dict[str, Any]


@dataclass(frozen=True)
class Result:
    """What one native run gave.

    rows: one dictionary per hook, the unhooked call first:
      hook, code                        its name, and what a call executes, see states.executed()
      ns_min, ns_q1, ns_median, ns_q3   nanoseconds per call over all batches, with the loop around it
      ns_over                                 ns_min less the unhooked call's
      cycles_over                             the same in core cycles, by the clock that the additions showed
      ratio_direct                            ns_over as a multiple of the direct call's; None if that was not timed
      windows, steady, agreed                 the least time of each window, whether the hook has one speed, and whether it has
                                              and the windows agree: see agreement.py. From a row that does not agree nothing
                                              may be concluded
      instructions, cycles, branch_misses     hardware counters per call, with the loop; only where they are permitted. They
                                              are of batches of their own, 20 a hook and window: the core's predictors may be in
                                              another state than in the fastest of the timed ones, so compare by cycles_over
    clock: nanoseconds per cycle in each window.
    warnings: what makes these times worth less.
    failures: hooks that did not run, and why.
    provenance: where, when, and under which circumstances.
    """

    rows: tuple[dict[str, object], ...]
    clock: tuple[float, ...]
    warnings: tuple[str, ...]
    failures: tuple[str, ...]
    provenance: dict[str, object]

    @property
    def unquiet(self) -> tuple[str, ...]:
        """The hooks, or the unhooked call, on whose one speed the windows do not agree."""
        return tuple(str(r["hook"]) for r in self.rows if r["steady"] and not r["agreed"])

    @property
    def unsteady(self) -> tuple[str, ...]:
        """The hooks that have several speeds."""
        return tuple(str(r["hook"]) for r in self.rows if not r["steady"])

    def verdict(self) -> str:
        """The sentences on whether the machine was quiet enough, and which hooks have several speeds."""
        seen = f"{len(self.clock)} {'window' if len(self.clock) == 1 else 'windows'}"
        if len(self.unquiet) + len(self.unsteady) == len(self.rows):
            text = f"This machine was not quiet enough: in {seen} no hook has had the same least time in {NEEDED}."
        elif self.unquiet:
            text = (
                f"This machine was not quiet enough for {_few(self.unquiet)}: no {NEEDED} of {seen} had the same least time "
                f"to within {WITHIN:.0%} of what the hook adds."
            )
        else:
            rest = "every hook's" if not self.unsteady else "every other hook's"
            text = f"Agreed: in {NEEDED} of {seen} {rest} least time was the same to within {WITHIN:.0%} of what it adds."
        if self.unsteady and len(self.unsteady) < len(self.rows):
            text += f" Several speeds: {_few(self.unsteady)}, at whose typical one a call takes over {STEADY:.0%} longer."
        return text + (" Nothing is concluded from such times." if self.unquiet or self.unsteady else "")

    def row(self, hook: str) -> dict[str, object]:
        """The row of a hook; raises TramplabError if there is none."""
        for r in self.rows:
            if r["hook"] == hook:
                return r
        raise TramplabError(f"this result has no {hook}; it has {', '.join(str(r['hook']) for r in self.rows)}.")

    def cautions(self, width: int = WIDTH) -> str:
        """The warnings, a paragraph each, in lines of so many columns."""
        return "\n".join(textwrap.fill(f"warning: {w}", width, subsequent_indent="  ") for w in self.warnings)

    def as_json(self) -> str:
        """One JSON object, readable by eye."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=1) + "\n"

    def save(self, path: str | Path) -> None:
        """Write it to a file, whole or not at all; raises TramplabError where that is not possible."""
        write_whole(Path(path), self.as_json())


def _few(names: tuple[str, ...]) -> str:
    """Some names in words: three at most, and how many more. The table marks them all."""
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def load(path: str | Path) -> Result:
    """Read a saved result; raises TramplabError for a file that is none."""
    try:
        text = Path(path).read_bytes()
    except OSError as e:
        raise TramplabError(f"cannot read {path}: {e.strerror}.") from None
    return parsed(text, path)


def parsed(text: bytes, path: str | Path) -> Result:
    """The result that a file holds; its path is for the error."""
    name, again = str(path), "The result is damaged; make it again with `tramplab native --save FILE`."
    try:
        saved = documents.parsed(name, documents.decoded(name, text), "json")
    except TramplabError as e:
        raise TramplabError(f"{e} {again}") from None
    if not isinstance(saved, dict) or saved.get("format") != _FORMAT:
        raise TramplabError(
            f"{path} is no native result of this edition, which tells what was executed; make one with "
            "`tramplab native --save FILE`."
        )
    try:
        checked(name, saved, _File)
        _owed(name, saved)
    except TramplabError as e:
        raise TramplabError(f"{e} {again}") from None
    return Result(
        tuple(saved["rows"]), tuple(saved["clock"]), tuple(saved["warnings"]), tuple(saved["failures"]), saved["provenance"]
    )


def _owed(name: str, saved: dict[str, Any]) -> None:
    """Check rows against the windows, each other and the unhooked call, which is the first; times are kept with four digits."""
    if missing := [key for key in ("isa", "cpu", "arguments") if key not in saved["provenance"]]:
        raise TramplabError(f"{name}: provenance has no {' and no '.join(missing)}.")
    base, clock = saved["rows"][0], saved["clock"]
    for n, row in enumerate(saved["rows"]):
        quickest = min((w for w in row["windows"] if w is not None), default=0)
        cycles = sorted(row["ns_over"] / c for c in clock)
        slack = 0.01 + 0.01 * abs(row["cycles_over"])
        wrong = {
            "is there twice": row["hook"] in [r["hook"] for r in saved["rows"][:n]],
            "has other windows than the clock": len(row["windows"]) != len(clock),
            "needs ns_min <= ns_q1 <= ns_median <= ns_q3": not row["ns_min"] <= row["ns_q1"] <= row["ns_median"] <= row["ns_q3"],
            "has another ns_min than its windows": abs(row["ns_min"] - quickest) > _ROUNDED,
            "has another ns_over than ns_min less that of none": base["hook"] == "none"
            and abs(row["ns_min"] - base["ns_min"] - row["ns_over"]) > _ROUNDED,
            "has cycles_over of another clock": not cycles[0] - slack <= row["cycles_over"] <= cycles[-1] + slack,
        }
        if mistakes := [what for what, is_so in wrong.items() if is_so]:
            raise TramplabError(f"{name}: {row['hook']} {mistakes[0]}.")
