"""The sentence on a name that a kernel does not have."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from ..errors import TramplabError

_MARGIN = 4  # characters more or less


def absent(path: Path, what: str, name: str, known: Iterable[str]) -> TramplabError:
    """It names what is like it, not all that is known, which is a hundred thousand names.

    >>> print(absent(Path("vmlinuz"), "symbol", "ftrace_calle", ["_text", "ftrace_caller"]))
    vmlinuz has no symbol 'ftrace_calle' (did you mean ftrace_caller?): give another name, or a kernel that has it.
    """
    like = [k for k in known if k[:1] == name[:1] and abs(len(k) - len(name)) <= _MARGIN]
    near = difflib.get_close_matches(name, like, n=3, cutoff=0.8)
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    return TramplabError(f"{path} has no {what} {name!r}{hint}: give another name, or a kernel that has it.")
