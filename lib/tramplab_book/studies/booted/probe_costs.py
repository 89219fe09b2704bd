"""What does a probe cost in a booted kernel, and what of it is the mechanism? Debian's, as saved from boots under QEMU."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.boot import saved
from tramplab.boot.probes import PROBES
from tramplab.isa import ISAS
from tramplab.lab import names
from tramplab.vmlinux.results import beside
from tramplab.vmlinux.saved import saved as images

from ...publish.figures.chart import scatter, stacked_bars
from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name, slug
from ..memo import once

NAME = "probe_costs"
TITLE = "What probes cost in booted kernels"
MECHANISM, HANDLER, AROUND = "mechanism", "our handler", "around it"
UNITS = {"added": "insns", "mechanism": "insns", "lab": "insns", "share": "%", "instructions": "added"}
#: Arguments of the function that is probed.
_ARGS = 3
#: The probes that are drawn.
_DRAWN = (
    *("ops", "ops:2", "direct", "bpf-fentry", "bpf-fexit", "fprobe", "fprobe-exit", "kprobe", "kretprobe", "kprobe-multi"),
    *("kretprobe-multi", "function", "graph", "kprobe-event", "kretprobe-event", "fprobe-event", "fprobe-event-exit"),
)
#: Instructions within which a booted kernel executes as many as its image.
NEAR = 5


@once
def rows() -> pd.DataFrame:
    """One row per plain kernel and probe.

    Columns: isa, release, version, probe, error (of the kernel that refused it, "" for none), added (instructions of a system
    call), turned (the same when the probes are measured in the reverse order), handler (of these in handlers and programs of
    ours), mechanism (of the image's hook of this kind, called by the lab's machine, without its callback), lab (the same of the
    lab's kernel), and compared (nothing is around it but handlers and programs of ours). Numbers are missing where there are none.
    """
    configs = {found["kernel"]["sha256"]: found["kernel"] for found in images.every()}
    records = []
    for found in saved.every():
        kernel = found["kernel"]
        head = {"isa": kernel["isa"], "release": kernel["release"], "version": kernel["version"]}
        for row in found["probes"]:
            hook = next((h for h in names.images(row["probe"]) if h in found["image"]), "")
            lab = _lab(configs[kernel["sha256"]], hook) if hook and "added" in row else None
            mechanism = found["image"].get(hook) if "added" in row else None
            counts = {"added": row.get("added"), "turned": row.get("reversed", row.get("added"))}
            columns = {**counts, "handler": row.get("handlers"), "mechanism": mechanism, "lab": lab}
            compared = mechanism is not None and row.get("handlers") is not None
            records.append({**head, "probe": row["probe"], "error": row.get("refused", ""), **columns, "compared": compared})
    frame = pd.DataFrame(records)
    for name in ("added", "turned", "handler", "mechanism", "lab"):
        frame[name] = frame[name].astype("Float64")
    frame.attrs["units"] = UNITS
    return frame


def _lab(kernel: dict[str, Any], hook: str) -> int | None:
    try:
        return beside.added(kernel["isa"], kernel["release"], hook, *beside.overrides(kernel), args=_ARGS)
    except TramplabError:
        return None


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the newest release of which every ISA has a kernel."""
    both = frame.groupby("release", sort=False)["isa"].nunique()
    release = both.index[both == len(ISAS)][-1]
    part = frame[frame["release"] == release].reset_index(drop=True)
    part.attrs["units"] = UNITS
    return part


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The newest release's probes that are drawn, in parts: columns isa, probe, part, instructions."""
    part = newest(frame)
    records = []
    for row in part[part["probe"].isin(_DRAWN) & part["mechanism"].notna()].itertuples():
        handler = 0 if pd.isna(row.handler) else int(row.handler)
        mechanism = min(row.mechanism, row.added - handler)
        for name, value in ((MECHANISM, mechanism), (HANDLER, handler), (AROUND, row.added - handler - mechanism)):
            records.append({"isa": row.isa, "probe": row.probe, "part": name, "instructions": round(float(value))})
    out = pd.DataFrame(records)
    order = {name: n for n, name in enumerate(_DRAWN)}
    out = out.sort_values(["isa", "probe"], key=lambda s: s.map({**order, **{i: n for n, i in enumerate(ISAS)}}), kind="stable")
    out.attrs["units"] = UNITS
    return out.reset_index(drop=True)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and probe of the newest release: added, of it the image's mechanism, the lab's, and the share in percent."""
    part = newest(frame)
    out = pd.DataFrame(
        {
            "isa": part["isa"],
            "probe": part["probe"],
            "added": _cells(part),
            "mechanism": part["mechanism"].map(_number),
            "lab": part["lab"].map(_number),
            "share": [
                _number(100 * m / a, 0) if a else "-" for m, a in zip(part["mechanism"], part["added"].fillna(0), strict=True)
            ],
        }
    )
    out.attrs |= {"right": ["added", "mechanism", "lab", "share"], "units": UNITS}
    return out


def _number(value: object, digits: int = 2) -> str:
    return "-" if pd.isna(value) else f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"


def _cells(frame: pd.DataFrame) -> list[str]:
    """Instructions added, whole ones in both orders where these differ, or the error of the kernel that refuses the probe."""
    both = frame[["added", "turned"]]
    of = zip(frame["error"], both.min(axis=1), both.max(axis=1), strict=True)
    return [
        error or _number(low) if error or pd.isna(low) or low == high else _range(round(low), round(high))
        for error, low, high in of
    ]


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def every(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and probe, a column per release: instructions added, or the error of the kernel that refuses it."""
    cells = frame.assign(cell=_cells(frame))
    wide = cells.pivot(index=["isa", "probe"], columns="release", values="cell")
    releases = list(dict.fromkeys(frame["release"]))
    order = [(isa, probe) for isa in ISAS for probe in PROBES if (isa, probe) in wide.index]
    wide = wide.reindex(pd.MultiIndex.from_tuples(order, names=["isa", "probe"]))[releases].fillna("-").reset_index()
    wide.attrs["right"] = releases
    return wide


def compared(frame: pd.DataFrame) -> pd.DataFrame:
    """What the image and the booted kernel can be held against each other in, all releases: columns isa, release, probe, booted
    (without handlers), image, apart (booted less image)."""
    part = frame[frame["compared"] & frame["added"].notna()]
    booted = (part["added"] - part["handler"]).round().astype(int)
    out = part[["isa", "release", "probe"]].assign(booted=booted, image=part["mechanism"].astype(int))
    out["apart"] = out["booted"] - out["image"]
    out.attrs["units"] = {"booted": "insns", "image": "insns", "apart": "insns"}
    return out.reset_index(drop=True)


def apart(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and probe, a column per release: instructions in the booted kernel, and how many more than in the image."""
    pairs = compared(frame)
    cells = pairs.assign(cell=[f"{r.booted} {r.apart:+}" for r in pairs.itertuples()])
    wide = cells.pivot(index=["isa", "probe"], columns="release", values="cell")
    releases = list(dict.fromkeys(frame["release"]))
    order = [(isa, probe) for isa in ISAS for probe in PROBES if (isa, probe) in wide.index]
    wide = wide.reindex(pd.MultiIndex.from_tuples(order, names=["isa", "probe"]))[releases].fillna("-").reset_index()
    wide["isa"] = wide["isa"].map(isa_name)
    wide.attrs["right"] = releases
    return wide


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return every(frame)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: what a probe adds, "arm64-v7-2-kprobe-event"; how much more in the reverse order of probes,
    "...-turned"; of it the mechanism, "...-mechanism", and that in percent, "...-share"; by how much booted and image are apart,
    "...-apart"; how many comparisons with images there are, are equal and are near, and the largest difference of BPF's
    trampolines; how many counts there are, how many are the same in both orders, and by how much the others differ at most.
    """
    out: dict[str, object] = {}
    for row in frame[frame["added"].notna()].itertuples():
        name = slug(f"{row.isa} {row.release} {row.probe}")
        out[name], out[f"{name}-turned"] = round(row.added), round(row.turned - row.added)
        if not pd.isna(row.mechanism):
            out[f"{name}-mechanism"] = int(row.mechanism)
            if row.added > 0:
                out[f"{name}-share"] = round(100 * row.mechanism / row.added)
    pairs = compared(frame)
    far = pairs["apart"].abs()
    percent = 100 * far / pairs["image"].clip(lower=1)
    out |= {f"{slug(f'{r.isa} {r.release} {r.probe}')}-apart": int(r.apart) for r in pairs.itertuples()}
    out |= {"compared": len(pairs), "equal": int((far == 0).sum()), "near": int((far <= NEAR).sum()), "near-is": NEAR}
    trampolines = pairs["probe"].isin(("bpf-fentry", "bpf-fexit"))
    out |= {"bpf-most-apart": int(far[trampolines].max()), "ten-percent": int((percent <= 10).sum())}
    out["five-percent"] = int((percent <= 5).sum())
    out |= {"kernels": len(saved.every()), "probes": len(PROBES)}
    counted = frame[frame["added"].notna()]
    by_order = (counted["turned"] - counted["added"]).abs()
    out |= {"counts": len(counted), "counts-same": int((by_order == 0).sum()), "order-most": math.ceil(by_order.max())}
    out |= {"order-most-percent": math.ceil(10 * (100 * by_order / counted["added"]).max()) / 10}
    return out | {"kinds-most": int(counted.groupby(["isa", "release"]).size().max())}


_LIMITS = (
    "Instructions of a system call, counted by QEMU's virtual time on one CPU, not time. The text of Debian's packages, booted "
    "without mitigations and without KASLR; the function that is probed takes three arguments."
)
FIGURES = (
    Figure(
        "fig-booted",
        "What does a probe cost in a booted kernel?",
        chart=lambda frame: stacked_bars("instructions", bars=("probe",), stack="part")(drawn(frame)),
        table=table,
        alt="A panel per ISA, a bar per probe: instructions that it adds to a system call of a booted kernel, of these the "
        "mechanism as in the kernel's image, our handler, and what is around it.",
        limits=_LIMITS,
        source="booted",
    ),
    Figure(
        "fig-booted-image",
        "Does a booted kernel execute what its image does?",
        chart=lambda frame: scatter("booted", against="image", name=("probe",), series="release")(_positive(compared(frame))),
        table=apart,
        alt="A panel per ISA, both axes logarithmic: instructions in the booted kernel against instructions of the same kernel's "
        "image in the lab's machine, a point for each probe. On the line both are equal. The table has all numbers.",
        limits=_LIMITS,
        source="booted",
    ),
    Figure(
        "fig-booted-every",
        "Which kernel has which probe, and what does it add?",
        table=every,
        limits=_LIMITS,
        source="booted",
    ),
)


def _positive(pairs: pd.DataFrame) -> pd.DataFrame:
    """What a logarithmic axis can show."""
    out = pairs[(pairs["booted"] > 0) & (pairs["image"] > 0)].reset_index(drop=True)
    out.attrs["units"] = pairs.attrs["units"]
    return out
