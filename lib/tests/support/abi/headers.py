"""The headers of the guest's trampolines: what a source says of each, and which one speaks of a release."""

from __future__ import annotations

import re
from dataclasses import dataclass

from support.abi.abi_places import Place
from tramplab.build.toolchain import GUEST
from tramplab.ftrace import arch, releases
from tramplab.ftrace.releases import parse
from tramplab.isa import ISAS

_FIELDS = re.compile(r"^(stands for|saves|frame|differs)(?: with (CONFIG_\w+))?: +(\S.*)$")
_STANDS = re.compile(r"^\w.*, (x86-64|arm64|riscv64), (?:since (v\d+\.\d+)|(v\d+\.\d+) (?:to|and) (v\d+\.\d+))(?: \(.*\))?$")
_FRAME = re.compile(r"^(\d+) bytes, (\d+) written$")


class BadHeader(Exception):
    """A header that does not say all it has to."""


@dataclass(frozen=True)
class Header:
    """What a comment says of a trampoline; `saves` and `frame` by configuration name, "" for the usual one. until: ""
    where there is no last release."""

    isa: str
    file: str
    name: str
    since: str
    until: str
    saves: tuple[tuple[str, frozenset[str]], ...]
    frame: tuple[tuple[str, tuple[int, int]], ...]

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"

    def covers(self, place: Place) -> bool:
        return self.isa == place.isa and parse(self.since) <= parse(place.release) <= parse(self.until or place.release)

    @staticmethod
    def under(facts: tuple, defines: tuple[str, ...]):
        """The fact that holds in a configuration."""
        by_name = dict(facts)
        return next((by_name[d] for d in defines if d in by_name), by_name[""])


def headers_in(text: str, isa: str, file: str) -> list[Header]:
    """Every @trampoline block of a source; raises BadHeader for one that is incomplete or cannot be read."""
    found = []
    for comment in re.findall(r"/\*.*?\*/", text, re.DOTALL):
        prose = "\n".join(re.sub(r"^\s*/?\*+/? ?", "", line).rstrip() for line in comment.splitlines())
        for block in re.split(r"^@trampoline ", prose, flags=re.MULTILINE)[1:]:
            found.append(_header(block.split("\n\n")[0], isa, file))
    return found


def _header(block: str, isa: str, file: str) -> Header:
    name, *rest = block.replace("\n  ", " ").strip().splitlines()
    facts: dict[tuple[str, str], str] = {}
    for line in rest:
        m = _FIELDS.match(line)
        if not m:
            raise BadHeader(f"{file}: {name}: cannot read {line!r}")
        facts[m[1], m[2] or ""] = m[3]
    for wanted in ("stands for", "saves", "frame", "differs"):
        if (wanted, "") not in facts:
            raise BadHeader(f"{file}: {name}: no {wanted!r}")
    stands = _STANDS.match(facts["stands for", ""])
    if not stands or stands[1].replace("-", "_") != isa:
        raise BadHeader(f"{file}: {name}: no ISA and releases in {facts['stands for', '']!r}")
    saves, frames = [], []
    for (field, config), value in facts.items():
        if field == "saves":
            if unknown := set(value.split()) - set(ISAS[isa].registers):
                raise BadHeader(f"{file}: {name}: {sorted(unknown)} are no registers")
            saves.append((config, frozenset(value.split())))
        elif field == "frame":
            size = _FRAME.match(value)
            if not size:
                raise BadHeader(f"{file}: {name}: no frame size in {value!r}")
            frames.append((config, (int(size[1]), int(size[2]))))
    return Header(isa, file, name, stands[2] or stands[3], stands[4] or "", tuple(saves), tuple(frames))


SOURCES = {f"{isa}/{f.name}": f.read_text("utf-8") for isa in ISAS for f in sorted((GUEST / isa).glob("*.S"))}
HEADERS = [h for file, text in SOURCES.items() for h in headers_in(text, file.split("/")[0], file)]


def defined(place: Place) -> tuple[str, ...]:
    """The configuration names a place is built with."""
    isa = ISAS[place.isa]
    return arch.of(isa).config(releases.features(isa, place.release, dict(place.overrides))).defines


def header_of(name: str, place: Place) -> Header:
    """The one header that speaks of a trampoline in a release."""
    found = [h for h in HEADERS if h.name == name and h.covers(place)]
    assert len(found) == 1, f"{place}: {len(found)} headers of {name}: {', '.join(map(str, found))}"
    return found[0]
