"""Results as plain text of at most 72 columns, to read in a terminal and to paste under a patch; and as CSV."""

from __future__ import annotations

import csv
import io
import itertools
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...base.width import WIDTH
from .beside import Pair
from .differ import FIELDS, Change
from .result import added, made

#: Each image's path, and its result.
Labelled = Sequence[tuple[str, dict[str, Any]]]
#: Columns of a result's table, and how wide each is; the name of a hook in front of them.
_COLUMNS = {"insns": 6, "site": 5, "tramp": 6, "core": 5, "loads": 6, "stores": 7, "frame": 6, "stack": 6, "miss": 5}
_NAME = 20
#: A table of several images: its number of columns, and their width.
_SIDE, _WIDE = 6, 8


def text(result: dict[str, Any]) -> str:
    """A kernel's result: what it is, a line for each hook, and why a hook has none."""
    kernel = result["kernel"]
    lines = [f"{kernel['version']} on {kernel['isa']}, calls of {result['function']}()"]
    lines += _wrapped(f"{kernel['container']}, sha256 {kernel['sha256'][:16]}, mitigations: {_mitigations(kernel)}")
    lines += ["", f"{'':<{_NAME}}" + "".join(f"{name:>{size}}" for name, size in _COLUMNS.items())]
    for row in result["hooks"]:
        if row["status"] == "measured":
            cells = zip(_cells(row), _COLUMNS.values(), strict=True)
            lines.append(f"{row['hook']:<{_NAME}}" + "".join(f"{cell:>{size}}" for cell, size in cells))
    for row in result["hooks"]:
        if row["status"] != "measured":
            lines += _wrapped(f"{row['hook']}: {_without(row)}")
    lines += ["", "Outside the function and the callbacks. frame: bytes of the", "trampolines' frame; miss: mispredicted returns."]
    lines += _body(result)
    for said, names in _made(result).items():
        lines += _wrapped(f"{said}, where a booted kernel makes its own: {', '.join(names)}")
    for what in ("found", "booted", "faked"):
        lines += _wrapped(f"{what}: " + "; ".join(kernel[what]))
    for note, names in notes(result).items():
        lines += _wrapped(f"faked for {', '.join(names)}: {note}")
    return "\n".join(lines) + "\n"


def _made(result: dict[str, Any]) -> dict[str, list[str]]:
    """Kind of code that the lab has made -> the hooks that run it."""
    names: dict[str, list[str]] = {}
    for row in result["hooks"]:
        if row["status"] == "measured" and made(row):
            names.setdefault(made(row), []).append(row["hook"])
    return names


def notes(result: dict[str, Any]) -> dict[str, list[str]]:
    """Difference to a booted kernel -> the hooks that it concerns, where that is not all."""
    hooks: dict[str, list[str]] = {}
    for row in result["hooks"]:
        if "notes" in row:
            hooks.setdefault(row["notes"], []).append(row["hook"])
    return hooks


def several_text(results: Labelled) -> str:
    """Results of several kernels for the same function and hooks: a column for each with the instructions that its table has, and
    why there are none."""
    numbered = list(enumerate(results, 1))
    lines = _wrapped(f"Calls of {results[0][1]['function']}(): instructions outside the function and the callbacks")
    for n, (path, result) in numbered:
        kernel = result["kernel"]
        lines += _wrapped(f"{n}: {path}, {kernel['version']} on {kernel['isa']}, mitigations: {_mitigations(kernel)}")
    for first in range(0, len(numbered), _SIDE):
        block = numbered[first : first + _SIDE]
        lines += ["", f"{'':<{_NAME}}" + "".join(f"{n:>{_WIDE}}" for n, _ in block)]
        for rows in zip(*(result["hooks"] for _, (_, result) in block), strict=True):
            lines.append(f"{rows[0]['hook']:<{_NAME}}" + "".join(f"{_short(row):>{_WIDE}}" for row in rows))
    lines.append("")
    for rows in zip(*(result["hooks"] for _, result in results), strict=True):
        missing = sorted((_without(row), n) for n, row in enumerate(rows, 1) if row["status"] != "measured")
        for what, of in itertools.groupby(missing, key=lambda m: m[0]):
            lines += _wrapped(f"{rows[0]['hook']} in {', '.join(str(n) for _, n in of)}: {what}")
    lines += _body(results[0][1])
    lines += _wrapped("The table of one image has site, trampoline and core, loads and stores, and what is not real.")
    return "\n".join(lines) + "\n"


def as_csv(results: Labelled) -> str:
    """Results as CSV: a line for each image, hook and component."""
    buffer = io.StringIO()
    rows = [(path, result, row) for path, result in results for row in result["hooks"]]
    names = next((list(row["components"]["site"]) for *_, row in rows if row["status"] == "measured"), [])
    table = csv.writer(buffer, lineterminator="\n")
    head = ["image", "version", "isa", "function", "body", "hook", "status", "component"]
    table.writerow([*head, *names, "frame_bytes", "stack_bytes", "reason"])
    for path, result, row in rows:
        kernel = result["kernel"]
        body = "returns at once" if "body" in result else "runs"
        about = [path, kernel["version"], kernel["isa"], result["function"], body, row["hook"], row["status"]]
        if row["status"] != "measured":
            table.writerow([*about, "", *("" for _ in names), "", "", row["reason"]])
            continue
        for component, counts in row["components"].items():
            table.writerow([*about, component, *(counts[n] for n in names), row["frame_bytes"], row["stack_bytes"], ""])
    return buffer.getvalue()


def lab_text(pairs: Iterable[Pair]) -> str:
    """The lab beside a real kernel, a line for each component of each hook."""
    lines = [f"{'':<{_NAME + 11}}{'real':>6}{'lab':>6}{'off':>8}  loads+stores"]
    for p in pairs:
        off = "" if p.off is None else f"{100 * p.off:+.0f} %"
        moved = "equal" if p.real[1:] == p.lab[1:] else f"{p.real[1]}+{p.real[2]}, {p.lab[1]}+{p.lab[2]}"
        lines.append(f"{p.hook:<{_NAME}} {p.component:<10}{p.real[0]:>6}{p.lab[0]:>6}{off:>8}  {moved}")
    return "\n".join(lines) + "\n"


def made_text(result: dict[str, Any]) -> str:
    """A line for each kind of code that the lab has made in both, so that it is not compared."""
    lines = [line for what, names in _made(result).items() for line in _wrapped(f"not compared, {what}: {', '.join(names)}")]
    return "\n".join(["", *lines, ""]) if lines else ""


def diff_text(a: dict[str, Any], b: dict[str, Any], changes: Iterable[Change]) -> str:
    """The changes from one kernel to another; one line where there are none."""
    changed = [c for c in changes if c.differs]
    head = f"{a['kernel']['version']} -> {b['kernel']['version']} on {a['kernel']['isa']}, calls of {a['function']}()"
    if not changed:
        same = "No hook differs: not in what is executed, nor in which functions."
        return "\n".join([*_wrapped(head), same, *_body(a)]) + "\n"
    lines = [*_wrapped(head), "", f"{'':<{_NAME}}" + "".join(f"{n.split()[0]:>{_WIDE}}" for n in list(FIELDS.values())[:6])]
    for c in changed:
        if c.before is None or c.after is None:
            lines += _wrapped(f"{c.hook}: {c.said}")
            continue
        first = list(FIELDS)[:6]
        lines.append(f"{c.hook:<{_NAME}}" + "".join(f"{c.before[n]:>{_WIDE}}" for n in first))
        lines.append(f"{'':<{_NAME}}" + "".join(f"{_signed(c.after[n] - c.before[n]):>{_WIDE}}" for n in first))
        if c.before["mispredicts"] != c.after["mispredicts"]:
            lines.append(f"    mispredicted returns: {c.before['mispredicts']} -> {c.after['mispredicts']}")
        lines += [f"    {name:<40}{x:>6} -> {y}" for name, x, y in c.symbols]
    lines += _body(a)
    return "\n".join(lines) + "\n"


def _cells(row: dict[str, Any]) -> Iterator[int]:
    counts, parts = added(row), row["components"]
    yield counts["instructions"]
    for component in ("site", "trampoline", "core"):
        yield parts[component]["instructions"]
    yield from (counts["loads"], counts["stores"], row["frame_bytes"], row["stack_bytes"], row["return_mispredicts"]["own"])


def _short(row: dict[str, Any]) -> str:
    return str(added(row)["instructions"]) if row["status"] == "measured" else {"absent": "-"}.get(row["status"], "FAILED")


def _without(row: dict[str, Any]) -> str:
    """The text in place of a number: why there is none."""
    return f"{'not there' if row['status'] == 'absent' else 'NOT MEASURED'}, {row['reason']}"


def _body(result: dict[str, Any]) -> list[str]:
    """The part of the function's body that is run, if not all of it."""
    return _wrapped(f"body: {result['body']}") if "body" in result else []


def _mitigations(kernel: dict[str, Any]) -> str:
    return kernel["mitigations"] if kernel["isa"] == "x86_64" else "as linked"


def _signed(number: int) -> str:
    return f"{number:+}" if number else "="


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_long_words=True, break_on_hyphens=False)
