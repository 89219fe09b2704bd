"""How numbers and names are written wherever readers meet them: an estimate never without its band, a hook that no kernel has
never without its mark."""

from __future__ import annotations

#: Behind the name of what no kernel has, in charts, tables and citations.
MARK = " *"
#: What the mark means, for captions, the foot of a table, and the limits of a citation.
HYPOTHETICAL = "* hypothetical: no kernel has it."


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
