"""What is said of counts beside which measured cycles of the saved machines stand."""

from __future__ import annotations

from ...publish.cite.cite import LAB
from ...publish.figures.fitted import digits
from ...publish.said import listed
from ..time.saved_times import cycles

#: For the limits of such a figure.
MEASURED = (
    "Cycles, under the name of a core or a machine, are native ones that the hook added to the call of a one-argument function, in "
    "user mode, where windows agree."
)
#: The same in a line, with the counts.
IN_SHORT = f"{LAB}; counts, and native cycles in user mode."


def timed(hook: str, what: str) -> str:
    """A sentence with the cycles that a hook of the newest release adds on x86-64; what: the hook in words."""
    found = [f"{digits(value)} cycles on {machine}" for machine, value in cycles(hook).items()]
    return f"Measured on x86-64, {what} adds {listed(found)}." if found else f"No saved machine has timed {what}."
