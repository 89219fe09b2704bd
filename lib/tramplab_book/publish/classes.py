"""Classes by which the style sheet knows what the package makes."""

#: The classes of a figure in a page, and of one that shows what the machine itself has measured.
FIGURE, OWN = "tl-figure", "tl-figure tl-own"
