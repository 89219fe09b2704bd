"""What `tramplab patch` says of a few patches, as saved from kernels that were built without them and with them."""

from __future__ import annotations

import pandas as pd

from tramplab.kbuild import saved
from tramplab.kbuild.verdict import Verdict, text

from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name
from ..memo import once

NAME = "patches"
TITLE = "From a patch to its verdict"
#: Column -> the part of a verdict that it is of, by a word of its name.
PARTS = {"hooks": "hooks", "patching": "patching", "probes": "probes", "trials": "trials"}
_SAME = "byte by byte"


@once
def rows() -> pd.DataFrame:
    """One row per patch and ISA. Columns: patch, isa, compiler, same (are the boot images the same bytes?), text (bytes that the
    text grows by), and for each of PARTS how many were compared ("hooks") and how many differ ("hooks_changed"); left_before,
    left_after: what a guarded ops adds to a call when a plain one has left, "" where that does not change."""
    return pd.DataFrame([_row(v) for v in saved.verdicts()])


def _row(v: Verdict) -> dict[str, object]:
    same = _SAME in v.parts[0].name
    row: dict[str, object] = {"patch": v.patches[0].removesuffix(".patch"), "isa": v.isa, "compiler": v.compiler, "same": same}
    row["text"] = 0 if same else int(v.part("bytes").growth)
    for column, name in PARTS.items():
        of = next((part for part in v.parts if name in part.name), None)
        row[column], row[f"{column}_changed"] = (of.compared, len(of.changes)) if of else (0, 0)
    left = next((change for part in v.parts for change in part.changes if change[0] == "guard-lost, plain-left"), ("", "", "", ""))
    return row | {"left_before": str(left[1]), "left_after": str(left[2])}


def printed(patch: str, *isas: str) -> str:
    """The lines that the command prints of a patch on these ISAs."""
    return "\n".join(text([saved.get(patch, isa) for isa in isas], 60)).strip()


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per patch and ISA: how many of each were compared, and how many differ."""
    out = pd.DataFrame({"patch": frame["patch"], "ISA": [isa_name(isa) for isa in frame["isa"]]})
    out["image"] = ["the same" if same else "another" for same in frame["same"]]
    for column in PARTS:
        pairs = zip(frame[f"{column}_changed"], frame[column], strict=True)
        out[column] = [f"{changed} of {compared}" if compared else "-" for changed, compared in pairs]
    out.attrs["right"] = list(PARTS)
    return out


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """By patch and ISA: "guard-stays-arm64-hooks" compared and "-hooks-changed", "-text-added" in bytes, "-same"."""
    found: dict[str, object] = {}
    for row in frame.to_dict("records"):
        of = f"{row['patch']}-{row['isa']}"
        found[f"{of}-same"], found[f"{of}-text-added"] = "yes" if row["same"] else "no", row["text"]
        for column in PARTS:
            found |= {f"{of}-{column}": row[column], f"{of}-{column}-changed": row[f"{column}_changed"]}
        if row["left_before"]:
            found |= {f"{of}-left-before": int(row["left_before"]), f"{of}-left-after": int(row["left_after"])}
    return found


FIGURES = (
    Figure(
        "fig-patches",
        "What does a fix change, and what does a comment?",
        table=table,
        limits="Small kernels for arm64 of Debian's source of 7.2, one without the patch and one with it; hooks in the image, "
        "probes and trials booted under QEMU on one CPU.",
        source="booted",
    ),
)
