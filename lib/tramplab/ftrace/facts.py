"""data/releases.yml as it is read: what it may say, and what its entries owe each other."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, field
from msgspec.structs import asdict

from ..base.entries import Entry, OfIsas, Release, Source, Sure, Text, Unsaid, facts
from ..base.errors import TramplabError, shown, unknown
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


class Interval(Entry, frozen=True):
    """A value that holds from `since` to `until`, both inclusive tags; None is open."""

    value: Any
    source: str
    sure: Sure
    since: Release | None = None
    until: Release | None = None

    def contains(self, version: tuple[int, int]) -> bool:
        """Does it hold in this version?"""
        return (self.since is None or parse(self.since) <= version) and (
            self.until is None or version <= parse(self.until)
        )

    def __str__(self) -> str:
        if self.since and self.until:
            return f"{self.since} to {self.until}"
        if self.until:
            return f"up to {self.until}"
        return f"since {self.since}" if self.since else "always"


class Fault(Entry, frozen=True, kw_only=True):
    """What did not work from one release to another, both inclusive.

    by, fixed_by: names of sources.
    said: what happened, a clause that begins with a small letter.
    built: the feature by which the lab's kernels of these releases have the fault, "" where they have not.
    """

    isa: Unsaid = ""
    first: Release = field(name="from")
    last: Release = field(name="to")
    by: str
    fixed_by: str
    sure: Sure
    said: Text
    built: str = ""

    def contains(self, release: str) -> bool:
        """Has this release the fault?"""
        return parse(self.first) <= parse(release) <= parse(self.last)

    @property
    def when(self) -> str:
        """The releases: "v6.4 to v6.7"."""
        return self.first if self.first == self.last else f"{self.first} to {self.last}"

    def __str__(self) -> str:
        by, fixed = (data().sources[name].commit or "-" for name in (self.by, self.fixed_by))
        return f"{self.when}: {self.said} (broken by {by}, fixed by {fixed})"


Intervals = Annotated[tuple[Interval, ...], Meta(min_length=1)]
_Broken = Literal[
    "direct_beside_ops",
    "live_patch_then_fexit",
    "live_patch_fentry_fexit",
    "clang_arguments",
    "fprobe_list_not_ended",
    "fprobe_without_rcu",
    "kprobe_event_race",
    "regs_sp_of_trampoline",
]


_Faults = dict[_Broken, Annotated[tuple[Fault, ...], Meta(min_length=1)]]


class _OfKernels(OfIsas[_Faults], frozen=True):
    """What did not work on each ISA; common: on all of them."""

    common: _Faults

    def __getitem__(self, isa: str) -> _Faults:
        return {**super().__getitem__(isa), **self.common}


class Reach(Entry, frozen=True):
    """How a patch site reaches code that is made at run time, by the allocator that made room for it."""

    modules: Intervals
    bpf: Intervals


class Registers(Entry, frozen=True):
    """What kernels make of the registers that a trampoline saved."""

    partial: Intervals
    perf: Intervals
    callchain: Intervals


class Table(Entry, frozen=True):
    """The content of the file. common, and each ISA's: feature -> its intervals."""

    first: Release
    last: Release
    majors: dict[int, Annotated[int, Meta(ge=0, le=99)]]
    shown: Annotated[tuple[Release, ...], Meta(min_length=1)]
    sources: dict[str, Source]
    hypothetical: OfIsas[dict[str, tuple[bool | int | str, ...]]]
    common: dict[str, Intervals]
    x86_64: dict[str, Intervals]
    arm64: dict[str, Intervals]
    riscv64: dict[str, Intervals]
    reach: OfIsas[Reach]
    registers: OfIsas[Registers]
    broken: _OfKernels

    def features(self, section: str) -> dict[str, tuple[Interval, ...]]:
        """The features of an ISA, or the common ones: feature -> its intervals."""
        return getattr(self, section)


#: Section -> the features that it must have.
_FEATURES = {
    "common": "direct_hash_kept direct_modified_unasked fprobe_guard fprobe_list_end fgraph return_pool objpool_pages objpool_mask"
    " kprobe_instance return_save counter_bits ops direct_shares bpf_inline_guards bpf_struct_args bpf_union_args bpf_program_nop"
    " partial_regs_update ubsan_bounds",
    "x86_64": "site args regs per_ops_trampoline direct direct_in_ops direct_without_regs direct_jmp direct_rebalance ibt"
    " trampoline_endbr call_depth_slots frame_pointer shared_epilogue preemption preempt_rcu bpf bpf_args bpf_endbr fprobe rethook"
    " fprobe_entry_ops fgraph_static_call fgraph_sp rethook_rcu_test recursion_rcu_test kprobe_session kprobes_on_ftrace"
    " kretprobe kretprobe_entry live_patching",
    "arm64": "site args regs call_ops direct direct_in_ops graph_slot bti frame_pointer preemption preempt_rcu bpf bpf_args"
    " bpf_context_counter fprobe rethook fprobe_entry_ops recursion_rcu_test kretprobe kretprobe_brk kretprobe_entry"
    " live_patching kprobe_session",
    "riscv64": "site args regs pt_regs_frame call_ops direct direct_in_ops compressed frame_pointer graph_slot preemption"
    " preempt_rcu bpf bpf_args fprobe rethook fprobe_entry_ops rethook_sp rethook_rcu_test recursion_rcu_test"
    " kprobes_on_ftrace kretprobe kretprobe_entry kprobe_session memcpy_call clang_frame",
}
#: Feature -> its values, of features that are more than there or not; so of ways to reach code and uses of registers.
_FLAG = (False, True)
_VALUES: dict[str, Sequence[object]] = {
    "site": ("nop5", "mov-bl", "literal-mov-bl", "detour16", "detour8", "literal-auipc-jalr"),
    "rethook": ("freelist", "objpool", "fgraph"),
    "kretprobe": ("own", "rethook"),
    "kretprobe_entry": ("ftrace", "breakpoint"),
    "return_pool": ("freelist", "objpool"),
    "return_save": ("regs",),
    "fprobe_list_end": ("bytes", "nothing"),
    "fgraph_sp": ("frame", "caller"),
    "counter_bits": range(1, 32),
    "bpf_args": ("scalars", "registers", "stack-scalars", "stack"),
    "reach": ("near", "far", "either"),
    "partial": ("plain", "kernel", "hardware"),
    "perf": ("caller", "nothing"),
    "callchain": ("always", "marked"),
}


@functools.cache
def data() -> Table:
    """The content of the file; raises TramplabError that names what is wrong in it."""
    found = facts(FILE, Table)
    known = every(found)
    for release in found.shown:
        _require_known("shown", release, found, known)
    if list(found.shown) != sorted(found.shown, key=parse):
        raise TramplabError(f"{FILE}: shown: the releases must stand in their order, the newest last.")
    for section, names in ((section, names.split()) for section, names in _FEATURES.items()):
        features = found.features(section)
        if strange := [name for name in features if name not in names]:
            raise TramplabError(f"{FILE}: {section}: {unknown('feature', strange[0], names)}")
        if lacking := [name for name in names if name not in features]:
            raise TramplabError(f"{FILE}: {section} has no {' and no '.join(lacking)}.")
    for place, kind, rows in _lists(found):
        _owed(place, _VALUES.get(kind, _FLAG), rows, found)
    for place, fault in _faults(found):
        _broken(place, fault, found, known)
    _named(found)
    return found


def every(found: Table) -> tuple[str, ...]:
    """Every release that can be asked for, in order."""
    first, last = parse(found.first), parse(found.last)
    if lacking := [str(major) for major in range(first[0], last[0] + 1) if major not in found.majors]:
        raise TramplabError(f"{FILE}: majors has no {' and no '.join(lacking)}, the last release of which it must tell.")
    every = [(major, minor) for major, top in found.majors.items() for minor in range(top + 1)]
    return tuple(f"v{a}.{b}" for a, b in sorted(every) if first <= (a, b) <= last)


def _lists(found: Table) -> Iterator[tuple[str, str, tuple[Interval, ...]]]:
    """Every list of intervals: where it stands, and of which values."""
    for section in ("common", *ISAS):
        yield from ((f"{section}, {feature}", feature, rows) for feature, rows in found.features(section).items())
    for isa in ISAS:
        yield from ((f"reach, {isa}, {code}", "reach", rows) for code, rows in asdict(found.reach[isa]).items())
        yield from ((f"registers, {isa}, {use}", use, rows) for use, rows in asdict(found.registers[isa]).items())


def _faults(found: Table) -> Iterator[tuple[str, Fault]]:
    """Every entry of what did not work, and where it stands."""
    for isa in ISAS:
        yield from ((f"broken, {isa}, {use}", fault) for use, faults in found.broken[isa].items() for fault in faults)


def _require_known(place: str, release: str, found: Table, known: Sequence[str]) -> None:
    if release not in known:
        raise TramplabError(f"{FILE}: {place}: {release} is not from {found.first} to {found.last}.")


def _require_source(place: str, name: str, found: Table) -> None:
    if name not in found.sources:
        raise TramplabError(f"{FILE}: {place}: {unknown('source', name, found.sources, ['those under sources'])}")


def _broken(place: str, fault: Fault, found: Table, known: Sequence[str]) -> None:
    """Raise TramplabError unless a fault has known sources, lasts from one known release to another, and its feature, if it has
    one, is a feature of all these releases."""
    for name in (fault.by, fault.fixed_by):
        _require_source(place, name, found)
    for release in (fault.first, fault.last):
        _require_known(place, release, found, known)
    if parse(fault.first) > parse(fault.last):
        raise TramplabError(f"{FILE}: {place}: {fault.first} comes after {fault.last}; from is the first release, to the last.")
    rows = {**found.features(place.split(", ")[1]), **found.common}.get(fault.built, ())
    lasting = [r for r in known if fault.contains(r)] if fault.built else []
    if lacking := [r for r in lasting if not any(row.value and row.contains(parse(r)) for row in rows)]:
        raise TramplabError(f"{FILE}: {place}: {lacking[0]} has no feature {shown(fault.built)}, by which it is said to be built.")


def _owed(place: str, values: Sequence[object], rows: tuple[Interval, ...], found: Table) -> None:
    """Raise TramplabError unless intervals have allowed values and known sources, begin before they end, follow each other, and
    each has a known release."""
    for row in rows:
        if not any(row.value == value and type(row.value) is type(value) for value in values):
            raise TramplabError(f"{FILE}: {place}: {unknown('value', row.value, values)}")
        _require_source(place, row.source, found)
        since, until = row.since or "v0.0", row.until or found.last
        if parse(since) > parse(until):
            raise TramplabError(f"{FILE}: {place}: {since} comes after {until}; since is the first release, until the last.")
        if parse(until) < parse(found.first):
            raise TramplabError(f"{FILE}: {place}: nobody can ask for a release up to {until}; {found.first} is the first.")
    for earlier, later in itertools.pairwise(rows):
        if not earlier.until or not later.since or parse(earlier.until) >= parse(later.since):
            raise TramplabError(f"{FILE}: {place}: a value must end (until) before the next begins (since).")


def _named(found: Table) -> None:
    """Raise TramplabError unless every source is used by a fact, and every hypothetical value is of a feature that exists."""
    used = {row.source for _, _, rows in _lists(found) for row in rows}
    used |= {name for _, fault in _faults(found) for name in (fault.by, fault.fixed_by)}
    if idle := [name for name in found.sources if name not in used]:
        raise TramplabError(f"{FILE}: nothing rests on the source {idle[0]}; name it where it is one, or take it out.")
    features = dict.fromkeys(name for section in ("common", *ISAS) for name in found.features(section))
    for isa in ISAS:
        for name in found.hypothetical[isa]:
            if name not in features:
                raise TramplabError(f"{FILE}: hypothetical, {isa}: {unknown('feature', name, features)}")
