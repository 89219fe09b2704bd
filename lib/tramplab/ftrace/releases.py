"""What each kernel release has on each ISA, from data/releases.yml: facts with their sources."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import asdict, replace

from ..base.entries import Source
from ..base.errors import TramplabError, unknown
from ..isa import ISAS, Isa
from . import arch
from .facts import Fault, Interval, data, every, parse

#: The answer of history() for what an ISA never had.
NEVER = "never"
#: Features that follow from others and cannot be overridden alone.
DERIVED = ("site", "counter_bits", "ops")
#: Faults that kernels of some releases had, and the lab's have only where they are asked for: see faulty().
FAULTS = ("direct_hash_kept", "direct_modified_unasked", "direct_without_regs")


@dataclass(frozen=True)
class Features:
    """The features of one release on one ISA, and what was overridden by hand."""

    isa: str
    release: str
    values: dict[str, Any]
    overridden: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values.get(name, False)

    def __str__(self) -> str:
        changed = ", ".join(f"{k}={v}" for k, v in self.overridden.items())
        return f"{self.isa} {self.release}" + (f" with {changed}" if changed else "")


def shown() -> tuple[str, ...]:
    """The releases that the studies show."""
    return data().shown


#: The newest release shown: the default of every kernel.
LATEST = shown()[-1]


@functools.cache
def known() -> tuple[str, ...]:
    """Every release that can be asked for, in order."""
    return every(data())


def require(release: str) -> None:
    """Raise TramplabError for a release that cannot be asked for: it is older or newer than all that can be, or unknown.

    >>> require("v5.15")
    Traceback (most recent call last):
    tramplab.base.errors.TramplabError: v5.15 is older than v5.17, the oldest release that the lab has: ask for that one.
    """
    if release in known():
        return
    oldest, newest = known()[0], known()[-1]
    try:
        version = parse(str(release))
    except TramplabError:
        raise unknown("release", release, known()) from None
    if version < parse(oldest):
        raise TramplabError(f"{release} is older than {oldest}, the oldest release that the lab has: ask for that one.")
    if version > parse(newest):
        raise TramplabError(f"{release} is newer than {newest}, the newest release that the lab has: ask for that one.")
    raise unknown("release", release, known())


def nearest(release: str) -> str:
    """A mainline tag's own release where it is known, else the newest known one before it, else the first.

    >>> nearest("v6.16"), nearest("v6.99"), nearest("v5.4")
    ('v6.16', 'v6.19', 'v5.17')
    """
    return max((r for r in known() if parse(r) <= parse(release)), key=parse, default=known()[0])


@functools.cache
def intervals(isa: str, feature: str) -> tuple[Interval, ...]:
    """When a feature had which value on an ISA; empty if it never had any."""
    return data().features(isa).get(feature) or data().common.get(feature, ())


@functools.cache
def stand_in(isa: str, release: str) -> str:
    """The first release shown that has the same features as this one: its kernel is the same, and so is whatever it does.

    >>> stand_in("arm64", "v6.12"), stand_in("arm64", "v6.13")
    ('v6.12', 'v6.12')
    """
    wanted = features(ISAS[isa], release, {}).values
    return next((r for r in shown() if features(ISAS[isa], r, {}).values == wanted), release)


@functools.cache
def distinct() -> tuple[str, ...]:
    """The releases shown, without those whose kernels are on every ISA those of one shown before them."""
    return tuple(r for r in shown() if any(stand_in(isa, r) == r for isa in ISAS))


def feature_names(isa: str) -> tuple[str, ...]:
    """Every feature that any ISA has: what can be overridden."""
    names: dict[str, None] = {}
    for section in ("common", isa, *ISAS):
        names.update(dict.fromkeys(data().features(section)))
    return tuple(names)


def source(name: str) -> Source:
    """A source by name: text and commit or message."""
    return data().sources[name]


@functools.cache
def _of_release(isa: str, release: str) -> dict[str, Any]:
    version, values = parse(release), {}
    for name in (name for name in feature_names(isa) if name not in FAULTS):
        found = next((i for i in intervals(isa, name) if i.contains(version)), None)
        if found:
            values[name] = found.value
    return values


def features(isa: Isa, release: str, overrides: dict[str, object]) -> Features:
    """The features of a release on an ISA; raises TramplabError for an unknown release or feature."""
    require(release)
    for name in overrides:
        own = {**data().features(isa.name), **data().common, **data().hypothetical[isa.name]}
        if name not in feature_names(isa.name):
            raise unknown("feature", name, feature_names(isa.name))
        if name not in own:
            raise TramplabError(
                f"{name} was never part of {isa.name}, and the lab has not built it there; it has {', '.join(sorted(own))}."
            )
    values = _of_release(isa.name, release)
    changed: dict[str, object] = {}
    for name, value in overrides.items():
        if name in DERIVED:
            raise TramplabError(
                f"{name}={value} cannot be set by itself: {values.get(name)} follows from the release and from call_ops, "
                "args, regs and direct; override those."
            )
        if not isinstance(value, Hashable) or value not in _values(isa, name):
            raise unknown(f"value of {name} on {isa.name}", value, sorted(map(str, _values(isa, name))))
        if values.get(name, False) != value:
            follows = arch.of(isa).CONSEQUENCES.get((name, value), {})
            against = [n for n in follows if n in overrides and overrides[n] != follows[n]]
            if against:
                both = f"{name}={value} and {against[0]}={overrides[against[0]]}"
                raise TramplabError(f"{both} contradict each other on {isa.name}; leave one out.")
            changed |= follows | {name: value}
    changed = {name: value for name, value in changed.items() if values.get(name, False) != value}
    return Features(isa.name, release, {**values, **changed}, changed)


def _values(isa: Isa, feature: str) -> set[object]:
    """The values with which a feature can be overridden: those that some release has, that another override brings along, or that
    no kernel has and the lab builds."""
    values = {i.value for i in intervals(isa.name, feature)} | {*data().hypothetical[isa.name].get(feature, ())}
    for changes in arch.of(isa).CONSEQUENCES.values():
        values |= {changes[feature]} if feature in changes else set()
    return values | {True, False} if all(isinstance(v, bool) for v in values) else values


def _holds(intervals: tuple[Interval, ...], release: str) -> Interval | None:
    """The interval that contains a release; None if none does."""
    return next((i for i in intervals if i.contains(parse(release))), None)


def reach(isa: str, release: str, code: str) -> Interval:
    """How code that is made at run time is reached from a patch site of the kernel's text: value near, far or either.

    code: "modules" or "bpf", whose allocators differ. Raises TramplabError for another one, and where nothing is known.

    >>> reach("riscv64", "v6.12", "bpf").value, reach("riscv64", "v6.16", "bpf").value, reach("arm64", "v7.2", "bpf").value
    ('near', 'far', 'either')
    """
    if found := _holds(reaches(isa, code), release):
        return found
    raise TramplabError(f"nothing in releases.yml says how a site of {isa} {release} reaches the code of {code}.")


def reaches(isa: str, code: str) -> tuple[Interval, ...]:
    """How code made at run time is reached, as in reach(), in all releases, oldest first."""
    kinds = asdict(data().reach[isa])
    if code not in kinds:
        raise unknown("kind of code", code, kinds)
    return kinds[code]


def uses_of_registers(isa: str, what: str) -> tuple[Interval, ...]:
    """How releases make a pt_regs of what a trampoline saved, or start a callchain from one, oldest first; see `registers` in
    releases.yml. what: "partial", "perf" or "callchain". Raises TramplabError for another one."""
    kinds = asdict(data().registers[isa])
    if what not in kinds:
        raise unknown("use of registers", what, kinds)
    return kinds[what]


def registers(isa: str, release: str, what: str) -> Interval:
    """A release's use of saved registers, one of uses_of_registers(); raises TramplabError where it has none.

    >>> [registers("x86_64", release, "partial").value for release in ("v6.14", "v6.18", "v7.0")]
    ['plain', 'kernel', 'hardware']
    """
    uses = uses_of_registers(isa, what)
    if found := _holds(uses, release):
        return found
    raise TramplabError(f"{isa} {release} has no such use of registers ({what}); it came in {uses[0].since}.")


@functools.cache
def faults(isa: str, use: str) -> tuple[Fault, ...]:
    """When a use of what an ISA has did not work, oldest first; empty if it always did. Raises TramplabError for a use that no ISA
    has an entry of under `broken`."""
    uses = dict.fromkeys(name for of in ISAS for name in data().broken[of])
    if use not in uses:
        raise unknown("use that was broken", use, uses)
    return tuple(replace(fault, isa=isa) for of, rows in data().broken[isa].items() if of == use for fault in rows)


def broken_uses(isa: str) -> tuple[str, ...]:
    """The uses that did not work on an ISA in some releases."""
    return tuple(data().broken[isa])


def broken(isa: str, release: str, use: str) -> Fault | None:
    """What did not work in a release, of a use under `broken`; None where it worked.

    >>> broken("x86_64", "v6.4", "direct_beside_ops").when, broken("x86_64", "v6.8", "direct_beside_ops")
    ('v6.4 to v6.7', None)
    """
    return next((fault for fault in faults(isa, use) if fault.contains(release)), None)


def faulty(isa: str, release: str) -> dict[str, Any]:
    """The features with which a kernel of a release has the faults of FAULTS that the release had: Kernel(isa, release, **these).

    >>> faulty("x86_64", "v6.4"), faulty("x86_64", "v7.2")
    ({'direct_modified_unasked': True, 'direct_without_regs': True}, {})
    """
    return {name: True for name in FAULTS if any(i.contains(parse(release)) for i in intervals(isa, name))}


def table() -> list[dict[str, str]]:
    """Every fact of releases.yml as a row: isa, feature, value, when, sure, source (its commit, mail or text)."""
    out = []
    for isa in ISAS:
        for feature in data().features(isa):
            for i in intervals(isa, feature):
                s = source(i.source)
                where = s.commit or s.message or s.text
                value = {True: "yes", False: "no"}.get(i.value, i.value)
                out.append({"isa": isa, "feature": feature, "value": value, "when": str(i), "sure": i.sure, "source": where})
    return out


def history(isa: str, feature: str, unlike: object = None) -> str:
    """When an ISA had a feature, with another value than that one, for an error message.

    >>> history("arm64", "regs")
    'v5.5 to v6.1'
    >>> history("riscv64", "direct")
    'since v6.8'
    >>> history("arm64", "per_ops_trampoline")
    'never'
    >>> history("riscv64", "rethook", "fgraph")
    'v6.2 to v6.9'
    """
    merged: list[Interval] = []
    for i in intervals(isa, feature):
        last = merged[-1] if merged else None
        if not i.value or i.value == unlike:
            continue
        if last and i.since and last.until and _follows(last.until, i.since):
            merged[-1] = replace(i, value=True, since=last.since)
        else:
            merged.append(i)
    return ", ".join(map(str, merged)) or NEVER


def _follows(earlier: str, later: str) -> bool:
    """Is `later` the release right after `earlier`?"""
    order = known()
    return earlier in order and order[order.index(earlier) + 1 :][:1] == (later,)


#: The newest release whose kernels differ from those of the release before it: LATEST's kernels are the same as its.
NEWEST = distinct()[-1]
