"""The sentence on a name that a kernel does not have."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from ...base.errors import TramplabError
from ...build.dwarf import Field

_MARGIN = 4  # characters more or less
_MOST = 3


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Names that may have been meant: of the same words in another order, those that are longer by words, those spelled like it.

    >>> similar("tcp_connect_v4", ["tcp_connect", "tcp_v4_connect"])
    ['tcp_v4_connect', 'tcp_connect']
    >>> similar("sys_read", ["fb_sys_read", "__x64_sys_read", "sens_read"])
    ['__x64_sys_read', 'fb_sys_read', 'sens_read']
    """
    names = list(known)
    words = _words(name)
    like = [k for k in names if k[:1] == name[:1] and abs(len(k) - len(name)) <= _MARGIN]
    longer = (k for k in names if k.endswith(f"_{name}") or k.startswith(f"{name}_"))
    matches = [
        *(k for k in like if _words(k) == words),
        *sorted(longer, key=lambda k: (not k.startswith("__"), len(k), k)),
        *difflib.get_close_matches(name, like, n=_MOST, cutoff=0.8),
    ]
    return list(dict.fromkeys(matches))[:_MOST]


def absent(path: Path, what: str, name: str, known: Iterable[str]) -> TramplabError:
    """The error for a name that is absent; it lists near matches, not all known names, of which there are a hundred thousand.

    >>> print(absent(Path("vmlinuz"), "symbol", "ftrace_calle", ["_text", "ftrace_caller"]))
    vmlinuz has no symbol 'ftrace_calle' (did you mean ftrace_caller?): give another name, or a kernel that has it.
    """
    meant = similar(name, known)
    hint = f" (did you mean {' or '.join(meant)}?)" if meant else ""
    return TramplabError(f"{path} has no {what} {name!r}{hint}: give another name, or a kernel that has it.")


def _words(name: str) -> list[str]:
    return sorted(name.split("_"))


class Members(dict[str, Field]):
    """The members of a struct of a kernel, by name."""

    def __init__(self, path: Path, struct: str, members: dict[str, Field]) -> None:
        super().__init__(members)
        self._path, self._struct = path, struct

    def __missing__(self, name: str) -> Field:
        raise absent(self._path, f"member of struct {self._struct}", name, self)
