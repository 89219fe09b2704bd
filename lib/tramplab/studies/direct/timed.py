"""What is said of a table of counts in which measured cycles of the saved machines stand, too."""

from __future__ import annotations

from ...publish.cite.cite import LAB

#: For the limits of such a figure.
MEASURED = (
    "Under the name of a core or a machine: cycles that the hook added to the call of a one-argument function in user mode, where "
    "windows agree."
)
#: The same in a line, with the counts.
IN_SHORT = f"{LAB}; counts; times, where they are shown, of user mode."
