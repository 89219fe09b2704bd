"""How numbers and names are written wherever readers meet them: an estimate never without its band, a hook that no kernel has
never without its mark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

#: The mark behind the name of what no kernel has, in charts, tables and citations.
MARK = " *"
#: The meaning of the mark, for captions, the foot of a table, and the limits of a citation.
HYPOTHETICAL = "* hypothetical: no kernel has it."
#: The text in place of a time that no machine has taken.
UNTIMED = "not timed"


def estimated(mid: float, low: float, high: float, digits: int = 0) -> str:
    """An estimate with its band; there is no other way to write one.

    >>> estimated(12.4, 10.6, 14.2), estimated(1.66, 1.59, 1.88, digits=2)
    ('12 (11 to 14)', '1.66 (1.59 to 1.88)')
    """
    return f"{mid:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def marked(name: str, hypothetical: bool = True) -> str:
    """A name with the mark if it is of something that no kernel has.

    >>> marked("ops-live"), marked("ops", False)
    ('ops-live *', 'ops')
    """
    return name + MARK if hypothetical else name


def slug(name: str) -> str:
    """A name as the names of quoted numbers have it.

    >>> slug("plain, per-CPU"), slug("full save, v7.2"), slug("before 1/0")
    ('plain-per-cpu', 'full-save-v7-2', 'before-1-0')
    """
    return re.sub(r"\W+", "-", name).lower()


def listed(parts: Iterable[str]) -> str:
    """Words in a sentence.

    >>> listed("abc"), listed("ab"), listed("a"), listed("")
    ('a, b and c', 'a and b', 'a', '')
    """
    found = list(parts)
    return " and ".join(filter(None, (", ".join(found[:-1]), *found[-1:])))


def isa_name(isa: str) -> str:
    """An ISA as sentences call it.

    >>> isa_name("x86_64"), isa_name("arm64")
    ('x86-64', 'arm64')
    """
    return isa.replace("x86_64", "x86-64")


def on_each(values: Mapping[str, object], what: str = "") -> str:
    """A value per ISA, in a sentence; `what` is counted.

    >>> on_each({"x86_64": 37, "arm64": 39, "riscv64": 44}, "instructions")
    '37 instructions on x86-64, 39 on arm64 and 44 on riscv64'
    >>> on_each({"x86_64": "ops and direct", "arm64": "ops"})  # a list in a list
    'ops and direct on x86-64; and ops on arm64'
    """
    names = [what, *[""] * (len(values) - 1)]
    pairs = zip(values.items(), names, strict=True)
    told = [" ".join(filter(None, (str(value), name, f"on {isa_name(isa)}"))) for (isa, value), name in pairs]
    if len(told) > 1 and any(" and " in str(value) for value in values.values()):
        return "; ".join((*told[:-1], f"and {told[-1]}"))
    return listed(told)
