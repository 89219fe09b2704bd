"""data/releases.yml as it is read: held against its schema, and against what its entries owe each other."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from typing import Any

from ..base.errors import TramplabError, shown, unknown
from ..base.schema import facts
from ..isa import ISAS

FILE = "releases.yml"


@functools.cache
def parse(release: str) -> tuple[int, int]:
    """A mainline tag as numbers.

    >>> parse("v6.16")
    (6, 16)
    """
    m = re.fullmatch(r"v([0-9]{1,9})\.([0-9]{1,9})", release)
    if not m:
        raise TramplabError(f"{shown(release)} is no mainline release; write it like v6.16.")
    return int(m.group(1)), int(m.group(2))


@functools.cache
def data() -> dict[str, Any]:
    """All that the file says; raises TramplabError that names what is wrong in it."""
    found: dict[str, Any] = facts(FILE, "releases")
    for release in found["shown"]:
        if release not in every(found):
            raise TramplabError(f"{FILE}: shown: {release} is not from {found['first']} to {found['last']}.")
    if found["shown"] != sorted(found["shown"], key=parse):
        raise TramplabError(f"{FILE}: shown: the releases must stand in their order, the newest last.")
    for place, rows in _lists(found):
        _owed(place, rows, found)
    for place, fault in _faults(found):
        _broken(place, fault, found)
    _named(found)
    return found


def every(found: dict[str, Any]) -> tuple[str, ...]:
    """Every release that can be asked for, in order."""
    first, last = parse(found["first"]), parse(found["last"])
    if lacking := [str(major) for major in range(first[0], last[0] + 1) if major not in found["majors"]]:
        raise TramplabError(f"{FILE}: majors has no {' and no '.join(lacking)}, the last release of which it must tell.")
    every = [(major, minor) for major, top in found["majors"].items() for minor in range(top + 1)]
    return tuple(f"v{a}.{b}" for a, b in sorted(every) if first <= (a, b) <= last)


def _lists(found: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Every list of intervals, and where it stands."""
    for section in ("common", *ISAS):
        yield from ((f"{section}, {feature}", rows) for feature, rows in found[section].items())
    for group, isa in itertools.product(("reach", "registers"), ISAS):
        yield from ((f"{group}, {isa}, {what}", rows) for what, rows in found[group][isa].items())


def _faults(found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every entry of what did not work, and where it stands."""
    for isa in ISAS:
        yield from ((f"broken, {isa}, {use}", fault) for use, faults in found["broken"][isa].items() for fault in faults)


def _broken(place: str, fault: dict[str, Any], found: dict[str, Any]) -> None:
    """A fault has known sources, and lasts from one release that can be asked for to another."""
    for name in (fault["by"], fault["fixed_by"]):
        if name not in found["sources"]:
            raise TramplabError(f"{FILE}: {place}: {unknown('source', name, found['sources'], ['those under sources'])}")
    for release in (fault["from"], fault["to"]):
        if release not in every(found):
            raise TramplabError(f"{FILE}: {place}: {release} is not from {found['first']} to {found['last']}.")
    if parse(fault["from"]) > parse(fault["to"]):
        raise TramplabError(f"{FILE}: {place}: {fault['from']} comes after {fault['to']}; from is the first release, to the last.")


def _owed(place: str, rows: list[dict[str, Any]], found: dict[str, Any]) -> None:
    """Intervals have known sources, begin before they end, follow each other, and each has a release that can be asked for."""
    for row in rows:
        if row["source"] not in found["sources"]:
            raise TramplabError(f"{FILE}: {place}: {unknown('source', row['source'], found['sources'], ['those under sources'])}")
        since, until = row.get("since", "v0.0"), row.get("until", found["last"])
        if parse(since) > parse(until):
            raise TramplabError(f"{FILE}: {place}: {since} comes after {until}; since is the first release, until the last.")
        if parse(until) < parse(found["first"]):
            raise TramplabError(f"{FILE}: {place}: nobody can ask for a release up to {until}; {found['first']} is the first.")
    for earlier, later in itertools.pairwise(rows):
        if "until" not in earlier or "since" not in later or parse(earlier["until"]) >= parse(later["since"]):
            raise TramplabError(f"{FILE}: {place}: a value must end (until) before the next begins (since).")


def _named(found: dict[str, Any]) -> None:
    """Every source is used by a fact, and every hypothetical value is of a feature that exists."""
    used = {row["source"] for _, rows in _lists(found) for row in rows}
    used |= {fault[name] for _, fault in _faults(found) for name in ("by", "fixed_by")}
    if idle := [name for name in found["sources"] if name not in used]:
        raise TramplabError(f"{FILE}: nothing rests on the source {idle[0]}; name it where it is one, or take it out.")
    features = dict.fromkeys(name for section in ("common", *ISAS) for name in found[section])
    for isa, values in found["hypothetical"].items():
        for name in values:
            if name not in features:
                raise TramplabError(f"{FILE}: hypothetical, {isa}: {unknown('feature', name, features)}")
