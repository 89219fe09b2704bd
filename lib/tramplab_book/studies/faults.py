"""What was broken in which releases, as pages and figures say it: `broken` of data/releases.yml."""

from __future__ import annotations

from collections.abc import Iterable

from tramplab.ftrace import releases
from tramplab.isa import ISAS

from ..publish.phrases import isa_name

#: Behind a number of a release in which kernels do not do what was counted.
MARK = "!"
#: BPF's programs on a function that is patched live, by the order in which they came.
LIVE_PATCHING = ("direct_beside_ops", "live_patch_then_fexit", "live_patch_fentry_fexit")


def said(uses: Iterable[str], isas: Iterable[str] = ISAS) -> str:
    """A sentence for each fault of these uses on these ISAs, alike ones together.

    >>> print(said(["direct_beside_ops"]))
    On x86-64 v6.4 to v6.7 a direct call is not called while an ops is on its function, unless one asks for all registers.
    """
    alike: dict[str, list[str]] = {}
    known = list(isas)
    for fault in (fault for use in uses for isa in known for fault in releases.faults(isa, use)):
        alike.setdefault(fault.said, []).append(f"{isa_name(fault.isa)} {fault.when}")
    return " ".join(f"On {' and '.join(where)} {what}." for what, where in alike.items())


def since(feature: str) -> str:
    """When each ISA has had a feature: "x86-64 always, arm64 since v6.17, riscv64 never".

    >>> since("live_patching")
    'x86-64 always, arm64 since v6.17, riscv64 never'
    """
    return ", ".join(f"{isa_name(isa)} {releases.history(isa, feature)}" for isa in ISAS)


def numbers() -> dict[str, object]:
    """What the prose quotes, by ISA and use, such as "x86_64-direct-beside-ops-when", and its commits, "-by" and "-fixed"."""
    out: dict[str, object] = {}
    for isa in ISAS:
        for use in releases.broken_uses(isa):
            name, found = f"{isa}-{use.replace('_', '-')}", releases.faults(isa, use)
            out[f"{name}-when"] = " and ".join(fault.when for fault in found)
            out[f"{name}-by"] = _commits(fault.by for fault in found)
            out[f"{name}-fixed"] = _commits(fault.fixed_by for fault in found)
    return out


def _commits(sources: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(releases.source(source).commit or "-" for source in sources))
