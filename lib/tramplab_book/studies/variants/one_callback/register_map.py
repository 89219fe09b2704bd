"""Who saves which register, who can read it, and who may lose it: every hook under a callback that spoils what it may."""

from __future__ import annotations

import re

import pandas as pd

from tramplab.ftrace import releases
from tramplab.ftrace.ops import Request
from tramplab.isa import ISAS, Isa
from tramplab.lab import hooks
from tramplab.lab.kernel import Kernel
from tramplab.lab.sentinels import FLAGS, KEPT, LOST, RESTORED, Fate, play
from tramplab.lab.view import Function

from ....publish import phrases
from ....publish.figures.chart import heat_map, theme
from ....publish.figures.figure import Figure
from ...memo import once

NAME = "register_map"
TITLE = "Who saves which register"
FUNCTION, ARGUMENTS = "three_args", 3
#: The hook that only old releases have everywhere; each ISA shows the last that has it.
OLD = "ops-regs"
UNITS = {"slot": "B"}
#: What can become of a register, and what the chart calls it.
FATES = {
    "restored": "restored",
    "restored, hidden": "restored",
    "shown, kept": "kept",
    "shown, lost": "lost",
    "kept": "kept",
    "lost to callback": "lost",
    "lost to hook": "lost",
    "stored, kept": "kept",
    "stored, lost": "lost",
}
#: The letters of the chart.
MEANINGS = {"restored": theme.RIGHT, "lost": theme.TWO, "kept": theme.PLAIN}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, hook and register, but for the stack pointer; one callback on a function of three arguments.

    Columns: isa, release (the newest; for ops-regs the last shown that has it), hook, hypothetical, register (x86-64's and
    arm64's flags too), role (see _role), fate (a name in FATES), slot (where on the stack a trampoline stored it first, in bytes
    from the stack pointer at the function's first byte), slots (how many such places), handed (can a callback read it?).
    """
    out = []
    for isa in ISAS.values():
        kernels: dict[str, Kernel] = {}
        for hook in hooks.PLAIN.values():
            release = shown(isa, hook)
            if hook.name == "none" or not release:
                continue
            kernel = kernels.setdefault(release, Kernel(isa.name, release))
            no_kernel = hooks.hypothetical(hook.name, isa.name, release)
            head = {"isa": isa.name, "release": release, "hook": hook.name, "hypothetical": no_kernel}
            fates = observe(kernel, kernel.function(FUNCTION), tuple(hooks.requests(hook, 1)))
            out += [{**head, **_row(isa, fates[register])} for register in ordered(isa)]
    frame = pd.DataFrame(out).astype({"slot": "Int64"})
    frame.attrs["units"] = UNITS
    return frame


def shown(isa: Isa, hook: hooks.Hook) -> str | None:
    """The release in which this study looks at a hook; None if the ISA never had it."""
    had = [r for r in releases.shown() if releases.features(isa, r, {})[hook.needs]]
    wanted = had if hook.name == OLD else [r for r in had if r == releases.LATEST]
    return wanted[-1] if wanted else None


def observe(kernel: Kernel, function: Function, requests: tuple[Request, ...]) -> dict[str, Fate]:
    """Attach, play one call with sentinels, detach: register -> fate. function takes three integers."""
    with kernel.attached(function, *requests):
        return play(kernel, function, requests, ARGUMENTS)


def _row(isa: Isa, fate: Fate) -> dict[str, object]:
    return {
        "register": fate.register,
        "role": _role(isa, fate.register),
        "fate": name_of(fate),
        "slot": fate.slots[0] if fate.slots else None,
        "slots": len(fate.slots),
        "handed": fate.handed,
    }


def name_of(fate: Fate) -> str:
    """The name of a fate, one of FATES."""
    if fate.at_body == RESTORED:
        return "restored" if fate.handed else "restored, hidden"
    if fate.slots:
        return f"{'shown' if fate.handed else 'stored'}, {'kept' if fate.at_body == KEPT else 'lost'}"
    if fate.at_body == LOST:
        return "lost to hook" if fate.by_hook else "lost to callback"
    return "kept"


_ROLES = ("argument", "scratch", "preserved", "frame pointer", "link", "platform", "flags")


def _role(isa: Isa, register: str) -> str:
    """What a register is for: an argument's, another that a callee may change, one it may not, and the single ones."""
    if register in (isa.fp, isa.link):
        return "frame pointer" if register == isa.fp else "link"
    for name, group in zip(_ROLES, (isa.args, (*isa.scratch, *isa.returns), isa.callee_saved), strict=False):
        if register in group:
            return name
    return "platform" if register in isa.fixed else "flags"


def ordered(isa: Isa) -> list[str]:
    """The registers by role; arguments in the order in which they are passed, the others as the ISA lists them."""
    flags = [FLAGS[isa.name].name] if isa.name in FLAGS else []
    names = [*isa.args, *(r for r in isa.registers if r not in (*isa.args, isa.sp)), *flags]
    return sorted(names, key=lambda r: _ROLES.index(_role(isa, r)))


# -- what is shown


def grouped(frame: pd.DataFrame) -> pd.DataFrame:
    """Registers of one role that fare alike under every hook that kernels have, as one: columns isa, registers, hook, fate.

    fate: what the chart calls it.
    """
    out = []
    real = frame[~frame["hypothetical"]]
    for isa, part in real.assign(fate=real["fate"].map(FATES)).groupby("isa", sort=False):
        fates = part.pivot(index="register", columns="hook", values="fate")[list(dict.fromkeys(part["hook"]))]
        alike: dict[tuple, list[str]] = {}
        for line in part.drop_duplicates("register").itertuples():
            alike.setdefault((line.role, *fates.loc[line.register]), []).append(line.register)
        for (_, *those), registers in alike.items():
            named = {"isa": isa, "registers": as_ranges(registers)}
            out += [{**named, "hook": hook, "fate": fate} for hook, fate in zip(fates.columns, those, strict=True)]
    return pd.DataFrame(out)


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows without hooks under which every register of every ISA fares as under an earlier hook."""
    cells = grouped(frame)
    fates = cells.pivot(index=["isa", "registers"], columns="hook", values="fate")[list(dict.fromkeys(cells["hook"]))]
    return cells[cells["hook"].isin(fates.T.drop_duplicates().index)]


def as_ranges(registers: list[str]) -> str:
    """Registers whose numbers follow each other, as a range.

    >>> as_ranges(["x0", "x1", "x2", "x9", "rdi"])
    'x0-x2 x9 rdi'
    """
    out: list[list[str]] = []
    for name in registers:
        if out and re.fullmatch(r"[a-z]+\d+", name) and _follows(out[-1][-1], name):
            out[-1].append(name)
        else:
            out.append([name])
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else " ".join(run) for run in out)


def _follows(before: str, name: str) -> bool:
    m = re.fullmatch(r"([a-z]+)(\d+)", name)
    return m is not None and before == f"{m[1]}{int(m[2]) - 1}"


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """One line per ISA, hook and fate: the registers that have it, in order."""
    out = []
    for (isa, hook), part in frame.groupby(["isa", "hook"], sort=False):
        for fate in FATES:
            if registers := list(part["register"][part["fate"] == fate]):
                name = phrases.marked(hook, bool(part["hypothetical"].iloc[0]))
                head = {"isa": f"{isa} {part['release'].iloc[0]}", "hook": name, "fate": fate}
                out += [{**head, "registers": line} for line in broken(as_ranges(registers).split())]
    return pd.DataFrame(out)


def broken(names: list[str], characters: int = 34) -> list[str]:
    """Names in lines of so many characters, with a space between.

    >>> broken(["x0-x2", "x9", "rdi"], 9)
    ['x0-x2 x9', 'rdi']
    """
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) >= characters:
            lines.append("")
        lines[-1] = f"{lines[-1]} {name}".strip()
    return lines


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes, by names like "arm64-ops-restored": how many registers of an ISA have a fate under a hook.

    Flags are not counted. Also "arm64-regs-release", the release in which ops-regs is shown; "arm64-registers", how many there are;
    "losing-an-argument", how many hooks that a kernel has lose a register in which the function's arguments are.
    """
    out: dict[str, object] = {"losing-an-argument": len(_losing(frame))}
    kinds = frame[frame["role"] != "flags"].groupby("isa", sort=False)["register"].nunique()
    out |= {f"{isa}-registers": int(n) for isa, n in kinds.items()}
    for (isa, hook), part in frame[frame["role"] != "flags"].groupby(["isa", "hook"], sort=False):
        for fate in FATES:
            out[f"{isa}-{hook}-{phrases.slug(fate)}"] = int((part["fate"] == fate).sum())
        if hook == OLD:
            out[f"{isa}-regs-release"] = part["release"].iloc[0]
    return out


def _losing(frame: pd.DataFrame) -> list[str]:
    """Hooks that a kernel has and that lose a register in which the function's arguments are."""
    real = frame[~frame["hypothetical"] & (frame["role"] != "flags")]
    passed = [(isa.name, register) for isa in ISAS.values() for register in isa.args[:ARGUMENTS]]
    mine = real[[pair in passed for pair in zip(real["isa"], real["register"], strict=True)]]
    return list(dict.fromkeys(mine["hook"][mine["fate"].map(FATES) == "lost"]))


FIGURES = (
    Figure(
        "fig-register-map",
        "Which registers does a hook bring back, and which does it lose?",
        chart=lambda frame: heat_map("fate", "registers", "hook", meanings=MEANINGS, abreast=1)(drawn(frame)),
        table=table,
        alt="A panel per ISA: registers down the side, hooks across, and in every cell what becomes of the register between "
        "the function's first byte and its body. The table lists the registers by hook and fate.",
        limits="One call of a three-argument function with one callback; the newest release, ops-regs in the last shown that "
        "has it. A callback is taken to change every register that the calling convention lets it change.",
        hypothetical=True,
    ),
)
