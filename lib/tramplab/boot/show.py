"""A boot's results as plain text of at most 72 columns, as CSV, and as plain data."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterable
from typing import Any

from ..base.width import WIDTH
from .counted import Booted, Row, expected, whole
from .plan import BLOCKS, CALLS
from .readings import Reading
from .replaying import Outcome

_NAME = 26
_COLUMNS = ("probe", "added", "handlers", "alike", "left", "refused", "step", "absent")


def text(booted: Booted) -> str:
    """A boot's results as text: what the kernel is, a line for each probe, and why a probe has none."""
    lines = textwrap.wrap(booted.version, WIDTH, break_on_hyphens=False)
    for call, one in booted.before.items():
        after = booted.after.get(call)
        again = "" if after is None else f", and {_number(after.instructions)} after all probes"
        lines.append(f"{call}() executes {_number(one.instructions)} instructions{again}.")
    lines += [f"A loop of three instructions counts {booted.loop:.5f}.", ""]
    lines.append(f"{'':<{_NAME}}{'added':>9}{'handlers':>10}{'alike':>8}  counted per call")
    for row in booted.rows:
        added = booted.added(row)
        if added is not None and row.measured is not None:
            handlers = "-" if row.handlers is None else row.handlers
            hits = ", ".join(f"{_number(n)} {kind}" for kind, n in row.hits.items())
            lines.append(f"{row.probe.name:<{_NAME}}{_number(added):>9}{handlers:>10}{row.measured.same:>8}  {hits}{_not(row)}")
    for row in booted.rows:
        for said in filter(None, (row.absent or _why(row), _left(booted, row))):
            lines += textwrap.wrap(f"{row.probe.name}: {said}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    note = (
        f"added: instructions of a system call more than without the probe, the median of {BLOCKS} pairs of {CALLS} and "
        f"{2 * CALLS} calls, of which so many are alike. handlers: of these in our own handlers and programs."
    )
    return "\n".join([*lines, "", *textwrap.wrap(note, WIDTH)]) + "\n"


def _number(value: float) -> str:
    """A number as text, without a fraction that is 0.

    >>> _number(38.0), _number(1418.52)
    ('38', '1418.52')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _not(row: Row) -> str:
    wanted = {kind: n for kind, n in expected(row.probe).items() if row.hits.get(kind, 0) != n}
    return f", not {', '.join(f'{n} {kind}' for kind, n in wanted.items())}" if wanted else ""


def _why(row: Row) -> str:
    return "the kernel says {} to: {}".format(*row.refused[0]) if row.refused else ""


def _left(booted: Booted, row: Row) -> str:
    """What a probe leaves in the call when it has been removed, which the counts of later ones have in them."""
    left = booted.left(row)
    how = f"{_number(abs(left))} {'more' if left > 0 else 'fewer'}"
    return f"when it has been removed, a call executes {how} instructions than before" if left else ""


def data(booted: Booted) -> dict[str, Any]:
    """A boot's results as plain data: a dictionary for each probe."""
    rows = []
    for row in booted.rows:
        of: dict[str, Any] = {"probe": row.probe.name}
        added = booted.added(row)
        if row.absent:
            of["absent"] = row.absent
        elif row.refused:
            error, step = row.refused[0]
            of |= {"refused": error, "step": step}
        elif added is not None and row.measured:
            of |= {"added": whole(added), "alike": row.measured.same, "handlers": row.handlers}
            of |= {"hits": {kind: whole(n) for kind, n in row.hits.items()}, "expected": expected(row.probe)}
        if left := booted.left(row):
            of["left"] = whole(left)
        rows.append(of)
    return {
        "banner": booted.version,
        "loop": booted.loop,
        "before": {call: whole(one.instructions) for call, one in booted.before.items()},
        "after": {call: whole(one.instructions) for call, one in booted.after.items()},
        "probes": rows,
    }


def as_csv(booted: Booted) -> str:
    """A boot's results as CSV: a line for each probe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for of in data(booted)["probes"]:
        writer.writerow([of.get(name, "") for name in _COLUMNS])
    return out.getvalue()


def trial_text(readings: Iterable[tuple[str, Reading]]) -> str:
    """What a trial read: a label, and below it what came there."""
    lines, last = [], ""
    for label, what in readings:
        if label != last:
            lines.append(f"{label}:")
            last = label
        lines += textwrap.wrap(str(what), WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def replay_text(banner: str, outcomes: Iterable[Outcome]) -> str:
    """What came of replays: the kernel, and a paragraph for each."""
    paragraphs = [banner]
    for one in outcomes:
        had = f", with the ops {one.ops} of {one.of}()" if one.ops else ""
        waits = one.outcome == "waits"
        said = [f"CPU 1 is held at {one.held}, before {one.before}{had}."]
        until = "waits still after" if waits else "has done so after"
        said += [f"CPU 0 {one.does}, and {until} {one.turns} turns, in each of which CPU 1 takes what interrupts have come."]
        said += [f"Let go on, CPU 1 enters {one.entered}() with the ops {one.passed}: {one.outcome}."]
        said += [f"It does not come back: {' / '.join(one.oops)}."] if one.oops else ["It comes back."]
        said += ["What CPU 0 waited for is done then."] if waits else []
        paragraphs.append(" ".join(said))
    return "\n\n".join(textwrap.fill(p, WIDTH, break_on_hyphens=False) for p in paragraphs) + "\n"
