"""Which functions of an image can be traced, and the sentence on one that cannot."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...base.errors import TramplabError
from ...emulate.image import Symbol
from .image import Opened
from .missing import similar

#: Beginnings of the symbols at the ends of text that nothing may trace: noinstr functions, and the entries from user space.
_NEVER = ("__noinstr_text", "__entry_text")
#: The beginning of the symbols at the ends of the text that boot frees.
_INIT = "_sinittext", "_einittext"
#: Suffixes that GCC gives to a cold part of a function, and to a copy that it calls instead of the function.
_COLD, _COPY = re.compile(r"(.+)\.cold(\.\d+)*$"), re.compile(r"(\.(isra|constprop|part)\.\d+)+$")
_DO = "name another function by --function"


def forbidden(opened: Opened, address: int) -> bool:
    """Does an address lie in text that nothing may trace?"""
    return any(_between(opened, address, f"{part}_start", f"{part}_end") for part in _NEVER)


def untraced(opened: Opened, name: str, traceable: Callable[[Symbol], bool]) -> TramplabError:
    """The error for a function that cannot be traced, with why and what to do. traceable: says of a symbol whether it can be."""
    path, symbol = opened.payload.path, opened.image.symbols.get(name)
    if symbol is not None:
        return TramplabError(f"{name} of {path} cannot be traced, {_why(opened, symbol)}.")
    symbols = opened.image.symbols
    named = (k for k in symbols if k.startswith(f"{name}.") and _COPY.fullmatch(k[len(name) :]))
    if copies := sorted(k for k in named if traceable(symbols[k])):
        made = " and ".join(copies)
        return TramplabError(f"{path} has no code of {name} itself, GCC made {made} of it: give that to --function.")
    if opened.prototype(name) is not None:
        return TramplabError(
            f"{path} has no code of the name {name}, though its types know it: all calls of it are inlined, so trace one of the "
            f"callers."
        )
    meant = similar(name, (s.name for s in symbols.values() if traceable(s)))
    hint = f" (did you mean {' or '.join(meant)}?)" if meant else ""
    return TramplabError(f"{path} has no function {name!r}{hint}: {_DO}; those of modules are not in the image.")


def _why(opened: Opened, symbol: Symbol) -> str:
    name, at = symbol.name, symbol.address
    if cold := _COLD.match(name):
        return f"it is the part of {cold[1]} that GCC moved away: a function has its patch site where it begins, so name {cold[1]}"
    if _between(opened, at, *_INIT):
        return f"it is __init code, which is freed after boot: {_DO}"
    if not opened.text[0] <= at < opened.text[1]:
        return f"it is no function of the kernel's text: {_DO}"
    if forbidden(opened, at):
        return f"it is in .noinstr.text or .entry.text, where no function may be traced: {_DO}"
    return f"it is notrace, as inline functions are, or assembly, so it has no patch site: {_DO}"


def _between(opened: Opened, address: int, start: str, end: str) -> bool:
    symbols = opened.image.symbols
    return start in symbols and end in symbols and symbols[start].address <= address < symbols[end].address
