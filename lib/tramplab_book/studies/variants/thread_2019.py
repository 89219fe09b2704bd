"""What the mails of October 2019 gave as numbers: published figures that the chapter's account of the argument quotes."""

from __future__ import annotations

from ...publish.published import get

_HACKBENCH = "x86-2019-hackbench"


def numbers() -> dict[str, object]:
    """What was said of two trampolines ("regs-stack", "generated-stack" in bytes, "generated-insns"), and by how much
    redirecting a hot function raised the cycles of hackbench, through a trampoline for the ip alone ("ip-cycles") and through
    that for all registers ("regs-cycles"), in percent of the run without."""
    texts = {
        name: int(get(f"x86-2019-said-{name}").value) for name in ("regs-stack", "generated-stack", "generated-insns")
    }
    base = get(f"{_HACKBENCH}-none-cycles").value
    rise = {f"{how}-cycles": get(f"{_HACKBENCH}-{how}-cycles").value / base - 1 for how in ("ip", "regs")}
    return {**texts, **{name: f"{share:.1%}".replace("%", " %") for name, share in rise.items()}}
