"""Which bytes are at a function's entry: as they are compiled, after the boot, and with something attached."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from tramplab.emulate import decode
from tramplab.ftrace import releases
from tramplab.ftrace.site import Site
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.lab.kernel import Kernel
from tramplab.lab.reading.wording import named

from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ...publish.phrases import isa_name
from ..memo import once
from . import ORDER

NAME = "patch_sites"
TITLE = "The bytes of a patch site"
FUNCTION = "one_arg"
COMPILED, BOOTED = "as compiled", "booted"
#: What is attached -> the hook on each ISA; riscv64's BPF programs are far from all sites.
ATTACHED = {
    "one ops": dict.fromkeys(ISAS, "ops"),
    "two ops": dict.fromkeys(ISAS, "ops"),
    "direct call": {"x86_64": "direct", "arm64": "direct", "riscv64": "direct-far"},
}
PLACES = ("8 bytes before", "entry", "entry + 4")
#: The target of the pointer beside a function, where the lab has no name for it; the prefix of names of registered ops.
_OPS, _POOL = "its ops", "lab_ops_pool"
_PAIR = re.compile(r"(?P<register>\w+), \w+, (?P<low>-?0x[0-9a-f]+|-?\d+)$")


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, state of the site and instruction in it; and one for the pointer beside the function.

    Columns: isa, release, state, offset (from the function's first byte), bytes (hexadecimal, in the order of memory), text (the
    instruction, with symbols for addresses; "-> " and what the pointer leads to), changed (are there other bytes than before: in a
    booted kernel, than were compiled; with something attached, than in the booted kernel).
    """
    records = []
    for isa in ISAS:
        for release in releases.shown():
            kernel = Kernel(isa, release)
            before: dict[int, str] = {}
            for state, there in _states(kernel):
                now = {offset: data for offset, data, _ in there}
                for offset, data, text in there:
                    head = {"isa": isa, "release": release, "state": state, "offset": offset, "bytes": data, "text": text}
                    records.append({**head, "changed": bool(before) and before.get(offset) != data})
                before = now if state in (COMPILED, BOOTED) else before
    return pd.DataFrame(records)


_Parts = list[tuple[int, str, str]]


def _states(kernel: Kernel) -> Iterator[tuple[str, _Parts]]:
    """Each state with (offset, bytes, text) of what is at the site."""
    site = kernel.function(FUNCTION).site
    first = site.entry if site.literal is None else site.literal
    segment = next(s for s in kernel.image.segments if s.address <= first < s.address + s.size)
    compiled = segment.data[first - segment.address : site.body - segment.address]
    yield COMPILED, _instructions(kernel, first, compiled, site.entry)
    yield BOOTED, _parts(kernel, site)
    for state, names in ATTACHED.items():
        hook = hooks.get(names[kernel.isa.name])
        if hook.there(kernel.features):
            with kernel.attached(FUNCTION, *hooks.requests(hook, 2 if state == "two ops" else 1)):
                yield state, _parts(kernel, site)


def _parts(kernel: Kernel, site: Site) -> _Parts:
    """(offset, bytes, text) of each instruction or word in memory at a site now."""
    site_bytes = kernel.machine.read(site.entry, site.body - site.entry)
    pointer = []
    if site.literal is not None:
        word = kernel.machine.read(site.literal, 8)
        name = kernel.names()(int.from_bytes(word, "little")) or _OPS
        pointer = [(site.literal - site.entry, word.hex(), f"-> {_OPS if name.startswith(_POOL) else name}")]
    return pointer + _instructions(kernel, site.entry, site_bytes, site.entry)


def _instructions(kernel: Kernel, start: int, data: bytes, entry: int) -> _Parts:
    """These bytes as instructions at an address, with symbols for addresses; the two halves of a call have its target."""
    found, done = [], 0
    upper = 0
    while done < len(data):
        one = decode.at(kernel.isa, start + done, data[done:])
        text = named(one.text, kernel.names())
        if one.mnemonic == "auipc":
            upper = start + done + (int(one.operands.rpartition(" ")[2], 16) ^ 1 << 19) * 4096 - (1 << 31)
        if one.mnemonic == "jalr" and (pair := _PAIR.search(one.operands)):
            text += f"  # {kernel.names()(upper + int(pair['low'], 0))}"
        found.append((start + done - entry, data[done : done + one.size].hex(), text))
        done += one.size
    return found


def places(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per ISA, release, state and place (one of PLACES): bytes and text of the instructions there, and changed."""
    place = pd.cut(frame["offset"], [-9, -1, 3, 99], labels=list(PLACES)).astype(str)
    keys = ["isa", "release", "state"]
    groups = frame.assign(place=place).groupby([*keys, "place"], sort=False)
    return groups.agg(bytes=("bytes", " ".join), text=("text", "; ".join), changed=("changed", "any")).reset_index()


def _across(frame: pd.DataFrame, value: str) -> pd.DataFrame:
    """One of the columns of places(), a row per ISA, release and state, with a column for each of PLACES that there is."""
    found = places(frame)
    keys = ["isa", "release", "state"]
    wide = found.pivot(index=keys, columns="place", values=value).reindex(pd.MultiIndex.from_frame(found[keys].drop_duplicates()))
    return wide[[place for place in PLACES if place in wide]]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA, state and instruction."""
    return frame[["isa", "state", "bytes", "text"]]


def body(frame: pd.DataFrame) -> Body:
    """The site of one ISA in one release: a line per state with bytes and instructions, and what is written marked."""
    said = (_across(frame, "bytes") + " " + _across(frame, "text")).fillna("").droplevel(["isa", "release"])
    changed = _across(frame, "changed").fillna(False).droplevel(["isa", "release"]).to_numpy(bool)
    label = f"The patch site of a function on {isa_name(frame['isa'].iloc[0])}"
    return Grid(said.rename_axis("state").reset_index().rename_axis(columns=None), label, code=True, marked=changed)


def spans(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per ISA and stretch of releases with the same site: isa, releases, and the instructions of it in each state."""
    texts = _across(frame, "text").fillna("").agg(lambda row: "; ".join(filter(None, row)), axis=1)
    texts = texts.unstack("state").reindex(dict.fromkeys(zip(frame["isa"], frame["release"], strict=True)))
    out: list[dict[str, str]] = []
    for (isa, release), row in texts.reindex(columns=[BOOTED, "one ops", "two ops", "direct call"]).fillna("-").iterrows():
        said = {"isa": isa, **row}
        if out and {k: v for k, v in out[-1].items() if k != "releases"} == said:
            out[-1]["releases"] = f"{out[-1]['releases'].partition(' ')[0]} to {release}"
        else:
            out.append({"isa": isa, "releases": release, **row})
    return pd.DataFrame(out)


def by_release(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA, stretch of releases, state and instruction."""
    stretches = spans(frame).reset_index(names="place")
    long = stretches.melt(["place", "isa", "releases"], [BOOTED, "one ops", "direct call"], "state", "text")
    lines = long.sort_values("place", kind="stable").drop(columns="place")
    return lines.assign(text=lines["text"].str.split("; ")).explode("text")


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return by_release(frame)


def _newest(frame: pd.DataFrame) -> pd.DataFrame:
    newest = frame[frame["release"] == releases.LATEST]
    return pd.concat([newest[newest["isa"] == isa] for isa in ORDER])


def in_releases(frame: pd.DataFrame) -> Body:
    """A line per ISA and stretch of releases: the site of a booted kernel, with one ops, and with a direct call."""
    found = spans(frame)
    found.insert(0, "kernels", [f"{isa_name(isa)}\n{span}" for isa, span in zip(found["isa"], found["releases"], strict=True)])
    shown = found[["kernels", BOOTED, "one ops", "direct call"]]
    lines = shown.assign(**{name: shown[name].str.replace("; ", "\n") for name in shown.columns[1:]})
    return Grid(lines, "The patch site of a function, by release", code=True)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for titles: "arm64-one-ops-changed" and so on, the bytes that a state has other than the booted kernel, in the newest
    release; "arm64-sites", how many different sites an ISA's releases have."""
    values: dict[str, object] = {"latest": releases.LATEST}
    changed = _newest(frame[frame["changed"]])
    for (isa, state), some in changed.groupby(["isa", "state"], sort=False):
        values[f"{isa}-{state.replace(' ', '-')}-changed"] = int((some["bytes"].str.len() // 2).sum())
    for isa, some in frame[frame["state"] == "one ops"].groupby("isa", sort=False):
        values[f"{isa}-sites"] = some.groupby("release")["text"].agg("; ".join).nunique()
    return values


FIGURES = (
    Figure(
        "fig-patch-site",
        "What does ftrace write into a function?",
        rows=_newest,
        table=table,
        body=body,
        tabs="isa",
        limits="Read from the lab's memory; its sites and addresses, not Linux's. Pointers are in the order of memory.",
        kind="fact",
    ),
    Figure(
        "fig-patch-site-releases",
        "How did the patch site change?",
        table=by_release,
        body=in_releases,
        limits="Read from the lab's memory, of the releases that the lab shows; its sites and addresses, not Linux's.",
        kind="fact",
    ),
)
