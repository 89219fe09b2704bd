"""Where the machine gets Debian from, as its own apt is told: so no host and no key is written down here.

Both formats are read: one line per source in *.list, paragraphs in *.sources; see sources.list(5) of apt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import TramplabError

#: The names that a suite of Debian's own archive may have in a machine's sources.
SUITES = frozenset("oldoldstable oldstable stable testing unstable sid bullseye bookworm trixie forky duke".split())
#: The keys of all suites, from the package debian-archive-keyring.
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_LINE = re.compile(r"deb\s+(?:\[(?P<options>[^]]*)\]\s*)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>[^#]+)")
_OFF = ("no", "false", "without", "off", "disable", "0")  # what apt takes for no


@dataclass(frozen=True)
class Source:
    """An archive: its address, and the keys that it must be signed with, as apt writes them ("" where it is not said)."""

    uri: str
    signed_by: str = ""


def debian(apt: Path) -> Source:
    """The first source of Debian's `main` in a folder like /etc/apt; raises TramplabError if there is none.

    Others call their suites and components the same. Debian's are signed with its keys; where a source says nothing of keys,
    or has a mirror's own, its address ends in a part with `debian`. The surer ones come first.
    """
    found = [source for suite, source in _mains(apt) if suite in SUITES and (_by_debian(source) or "debian" in _tail(source))]
    if not found:
        raise TramplabError(
            f"{apt} names no source of Debian's packages: the kernel images are fetched by apt-get from where the machine has its "
            "Debian from, so do it on one that runs Debian; the counts that are saved need no image."
        )
    return min(found, key=lambda s: (not _by_debian(s), _tail(s).removesuffix(".list") != "debian", bool(s.signed_by)))


def private(source: Source, wanted: Mapping[str, Iterable[str]]) -> str:
    """A .sources file for the packages of some suites, each with its architectures, and for nothing else of them."""
    key = source.signed_by
    if (not key or "debian-archive-" in key) and "debian-archive-keyring" not in key and KEYRING.is_file():
        key = str(KEYRING)  # a suite's own keys are not those of the others
    signed = f"Signed-By: {key}\n" if key else ""
    return "\n".join(
        f"Types: deb\nURIs: {source.uri}\nSuites: {suite}\nComponents: main\nArchitectures: {' '.join(architectures)}\n"
        f"Targets: Packages\n{signed}"
        for suite, architectures in wanted.items()
    )


def _by_debian(source: Source) -> bool:
    return "debian-archive-" in source.signed_by


def _tail(source: Source) -> str:
    """The last part of an address; a cdrom's is nothing, as it has no other suite."""
    return "" if source.uri.startswith("cdrom:") else source.uri.rstrip("/").rpartition("/")[2]


def _mains(apt: Path) -> Iterator[tuple[str, Source]]:
    """Suite and source of all that is switched on and has binary packages in `main`, in the order in which apt reads it."""
    parts = apt / "sources.list.d"
    for path in (apt / "sources.list", *sorted([*parts.glob("*.list"), *parts.glob("*.sources")])):
        try:
            text = path.read_text("utf-8", "replace")
        except FileNotFoundError:  # newer machines have no sources.list
            continue
        except OSError as e:
            raise TramplabError(f"cannot read {path} ({e.strerror}), which says where packages come from.") from None
        yield from (_paragraphs if path.suffix == ".sources" else _lines)(text)


def _lines(text: str) -> Iterator[tuple[str, Source]]:
    for line in text.splitlines():
        m = _LINE.match(line.strip())
        if m and "main" in m["components"].split():
            options = dict(option.partition("=")[::2] for option in (m["options"] or "").split())
            yield m["suite"], Source(m["uri"], options.get("signed-by", ""))


def _paragraphs(text: str) -> Iterator[tuple[str, Source]]:
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        fields: dict[str, str] = {}
        name = ""
        for line in paragraph.splitlines():
            if line[:1] in " \t":
                fields[name] = fields.get(name, "") + "\n" + line  # kept as it is: a key may be written out here
            else:
                name, _, value = line.partition(":")
                name = name.lower()
                fields[name] = value.strip()
        types, components = fields.get("types", "").split(), fields.get("components", "").split()
        if "deb" in types and "main" in components and fields.get("enabled", "").lower() not in _OFF:
            for uri in fields.get("uris", "").split():
                for suite in fields.get("suites", "").split():
                    yield suite, Source(uri, fields.get("signed-by", ""))
