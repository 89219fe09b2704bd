"""Structures of registers that are filled in part: who fills what, who reads what, and what is concluded from the rest.
Many doors because each step to a conclusion is shown by a study of its own."""

from ..base import signatures

#: Modules of which only constructors check types, since they are called for every instruction.
INNER: tuple[str, ...] = ("context.arithmetic", "context.helping", "context.state")
signatures.hold(__name__, INNER)
