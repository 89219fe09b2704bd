"""Do real kernels fill the same slots as the lab's providers?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.sparsity.structures import fields
from tramplab.sparsity.structures.classify import KINDS, Slot
from tramplab.sparsity.structures.frames import frame as frame_of
from tramplab.sparsity.structures.providers import PROVIDERS
from tramplab.vmlinux.debian.list import plain
from tramplab.vmlinux.results import beside
from tramplab.vmlinux.saved import frames_saved, saved

from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ..memo import once
from .register_frames import ABSENT

NAME = "real_frames"
TITLE = "The registers that each provider passes on Debian's kernels"
_LAB, _KERNEL = "lab", "kernel"


@once
def rows() -> pd.DataFrame:
    """One row per kernel of a release that the studies show, provider that it has, and slot of its structure or of the lab's.

    Columns: kernel (Debian's, "6.12-arm64"), version, isa, release, provider, consumer (who is handed the structure there),
    lab_release (the kernel's, or the nearest known that has the provider), struct, slot, kernel_kind, kernel_rule,
    lab_kind, lab_rule (kinds: sparsity/structures/classify.py, and "no slot"), same.
    """
    shown = {p.name for p in plain() if p.release in releases.shown()}
    records = [row for kernel in frames_saved.read()["kernels"] if kernel["name"] in shown for row in _kernel(kernel)]
    return pd.DataFrame(records)


def _kernel(kernel: dict[str, Any]) -> Iterator[dict[str, object]]:
    package = next(p for p in plain() if p.name == kernel["name"])
    overrides = beside.overrides(saved.read(package)["kernel"])
    for found in kernel["frames"]:
        lab = _lab(package.isa, package.release, found["provider"], overrides)
        head = {
            "kernel": package.name.removeprefix("debian-"),
            "version": package.version,
            "isa": package.isa,
            "release": package.release,
            "provider": found["provider"],
            "consumer": found["consumer"],
            "lab_release": lab.features.release,
            "struct": found["struct"],
        }
        yield from ({**head, **pair} for pair in paired(found["slots"], *_slots(lab, found["provider"])))


def _lab(isa: str, release: str, provider: str, told: tuple[tuple[str, Any], ...]) -> Kernel:
    """The lab's kernel of this release and build, or where it has no such provider the nearest release that is shown and has."""
    same = Kernel(isa, release, **dict(told))
    if PROVIDERS[provider].offered(same.features):
        return same
    shown = [r for r in releases.shown() if PROVIDERS[provider].offered(releases.features(ISAS[isa], r, {}))]
    order = releases.known()
    return Kernel(isa, min(shown, key=lambda r: abs(order.index(r) - order.index(release))))


def _slots(lab: Kernel, name: str) -> tuple[Mapping[str, Slot], tuple[fields.Place, ...]]:
    provider = PROVIDERS[name]
    return frame_of(lab, provider).slots, fields.places(lab.image, provider.struct)


def paired(there: list[dict[str, Any]], lab: Mapping[str, Slot], places: tuple[fields.Place, ...]) -> Iterator[dict[str, object]]:
    """Slots of a kernel, as they are kept, beside the lab's: those of one name, then those of one place and size. Columns slot to
    same of the rows."""
    lab_slots = {slot["slot"] for slot in there}
    at = {(p.offset, p.size): p.name for p in places if p.name not in lab_slots}
    left = dict.fromkeys(p.name for p in places)
    for slot in there:
        name = slot["slot"] if slot["slot"] in left else at.get((slot["offset"], slot["size"]), "")
        left.pop(name, None)
        yield _pair(slot["slot"], (slot["kind"], slot["rule"]), (lab[name].kind, lab[name].rule) if name else (ABSENT, ""))
    for name in left:
        yield _pair(name, (ABSENT, ""), (lab[name].kind, lab[name].rule))


def _pair(slot: str, kernel: tuple[str, str], lab: tuple[str, str]) -> dict[str, object]:
    """kernel, lab: kind and rule."""
    sides = {_KERNEL: kernel, _LAB: lab}
    kinds = {f"{side}_{what}": pair[n] for side, pair in sides.items() for n, what in enumerate(("kind", "rule"))}
    return {"slot": slot, **kinds, "same": kernel == lab}


# -- what is shown


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per kernel and provider: the release of the lab's, and how many slots hold the same in the kernel. Below it one for
    each slot that does not: what it holds in either."""
    lines = []
    for (kernel, provider), part in _each(frame):
        lines.append({"image": kernel, "provider": provider, "lab": part["lab_release"].iloc[0], "kernel": _of(part)})
        for row in part[~part["same"]].to_dict("records"):
            lines.append({"image": kernel, "provider": f"- {row['slot']}", "lab": holds(row, _LAB), "kernel": holds(row, _KERNEL)})
    return pd.DataFrame(lines)


def body(frame: pd.DataFrame) -> Body:
    """A line per kernel and what its providers fill, those that fill alike together, with the slots that hold something else than
    in the lab."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for (kernel, provider), part in _each(frame):
        apart = part[~part["same"]].to_dict("records")
        other = "\n".join(f"{row['slot']}: {holds(row, _KERNEL)} (lab: {holds(row, _LAB)})" for row in apart)
        alike.setdefault((kernel, f"{_of(part)} ({part['lab_release'].iloc[0]})", other), []).append(provider)
    lines = [
        {"kernel": kernel, "provider": "\n".join(providers), "as in the lab's": of, "otherwise": other}
        for (kernel, of, other), providers in alike.items()
    ]
    return Grid(pd.DataFrame(lines), "Slots that Debian's kernels fill as the lab does")


def holds(row: Mapping[str, Any], side: str) -> str:
    """What a slot holds, in a word: of what is derived or constant, from which register or which value."""
    return str(row[f"{side}_rule"] or row[f"{side}_kind"])


def _each(frame: pd.DataFrame) -> Iterator[tuple[tuple[str, str], pd.DataFrame]]:
    for (kernel, provider), part in frame.groupby(["kernel", "provider"], sort=False):
        yield (str(kernel), str(provider)), part


def _of(part: pd.DataFrame) -> str:
    return f"{int(part['same'].sum())} of {len(part)}"


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "kernels-total"; "slots-total", "slots-same"; and slots of a kind that a provider leaves,
    "6.12-amd64-return_to_handler-garbage"."""
    values: dict[str, object] = {
        "kernels-total": frame["kernel"].nunique(),
        "slots-total": len(frame),
        "slots-same": int(frame["same"].sum()),
    }
    for (kernel, provider), part in _each(frame):
        values |= {f"{kernel}-{provider}-{kind}": int((part["kernel_kind"] == kind).sum()) for kind in KINDS}
    return values


FIGURES = (
    Figure(
        "fig-real-frames",
        "Do real kernels fill the same slots?",
        table=table,
        body=body,
        limits="Of members that share their bytes the first: of cs and ss the two bytes that C reads. Where the lab's "
        "kernel of the same release has no such provider it is of the nearest shown that has. On v6.12 no handler is given what "
        "return_to_handler fills: it is looked at as the C function that the trampoline calls is entered. Providers that an image "
        "has not, or whose hook is not laid out there, are left out: data/kernel-frames.json says why.",
        source="both",
        caveat="Where a release has no such provider the lab's nearest is taken.",
    ),
)
