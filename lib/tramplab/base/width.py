"""How many columns a line may have."""

WIDTH = 72  # of a kernel mailing list mail
INDENTED_WIDTH = 66  # where it will be indented, as in the text form of the book
