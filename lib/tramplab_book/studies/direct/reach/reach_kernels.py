"""The kernels that pages about reach show: of each ISA the newest of every kind of patch site that can call directly."""

from __future__ import annotations

from tramplab.ftrace import releases
from tramplab.isa import ISAS


def kernels() -> list[tuple[str, str]]:
    """(isa, release), arm64 first, whose page it is; of riscv64 there are two, before v6.16 and since.

    >>> [isa if release == releases.LATEST else f"{isa} {release}" for isa, release in kernels()]
    ['arm64', 'x86_64', 'riscv64 v6.12', 'riscv64']
    """
    newest: dict[tuple[str, str], str] = {}
    for isa in sorted(ISAS, key=lambda name: name != "arm64"):
        for release in releases.shown():
            features = releases.features(ISAS[isa], release, {})
            if features["direct"]:
                newest[isa, features["site"]] = release
    return [(isa, release) for (isa, _), release in newest.items()]


def since(isa: str, release: str) -> str:
    """The first release shown whose patch site is of the same kind, and that has direct calls.

    >>> since("arm64", releases.LATEST), since("riscv64", releases.LATEST)
    ('v6.4', 'v6.16')
    """
    kind = releases.features(ISAS[isa], release, {})["site"]
    of_each = {r: releases.features(ISAS[isa], r, {}) for r in releases.shown()}
    return next(r for r, features in of_each.items() if features["direct"] and features["site"] == kind)
