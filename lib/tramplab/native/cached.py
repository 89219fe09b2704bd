"""This machine's own times, taken once and kept; and the ones that were saved in data/native/.

Times differ from run to run. What is shown of them must not differ between two pages, so a machine is timed once per
state of the sources, and the result is kept in the cache. `tramplab native` always measures again.

$TRAMPLAB_TIMES is `off`, for no times of this machine, or names a folder with other ones: hooks.json and shapes.json as
`tramplab native --save` writes them, or why there are none in hooks.txt and shapes.txt.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from pathlib import Path

from ..base import cache
from ..base.errors import TramplabError
from ..base.paths import checkout, data_file, sources, write_whole
from ..ftrace.releases import LATEST
from . import host
from .result import Result, load, parsed

HOOKS, SHAPES = "hooks", "shapes"
KINDS = (HOOKS, SHAPES)
#: The kind of results of hooks of states.EMPTY, which are timed only where they are asked for by name, and how their names begin.
EMPTY = "empty-"
#: The environment variable, and the word that switches the times off.
CHOICE, OFF = "TRAMPLAB_TIMES", "off"
_PARTS = ("native", "guest", "isa", "build", "emulate", "ftrace", "trampolines", "lab")


def own(kind: str) -> Result:
    """This machine's times of the hooks or the shapes; raises TramplabError where there are none, whatever the reason."""
    choice = os.environ.get(CHOICE, "")
    if choice == OFF:
        raise TramplabError(f"times of this machine are switched off ({CHOICE}={OFF}).")
    return _from_folder(Path(choice), kind) if choice else _own()[KINDS.index(kind)]


def saved(kind: str) -> dict[str, Result]:
    """The results in data/native/ by the name of their file: of HOOKS, SHAPES or EMPTY."""
    results = {path.stem: load(path) for path in sorted(_saved().glob("*.json"))}
    return {name: r for name, r in results.items() if _kind(r) == kind}


def _kind(result: Result) -> str:
    if "saves" in result.rows[0]:
        return SHAPES
    return EMPTY if all(str(row["hook"]).startswith(EMPTY) for row in result.rows[1:]) else HOOKS


def own_file(kind: str, release: str) -> Path:
    """The file in the checkout for this machine's times of the hooks of a release, or of the shapes, if no other is named."""
    checkout()
    what = kind if release == LATEST else release
    return _saved() / f"{host.name(host.machine())}-{what}.json"


def _saved() -> Path:
    return data_file("releases.yml").parent / "native"


def prepare(folder: Path) -> str:
    """Take the times now, if they are not kept, and lay them into a folder for $TRAMPLAB_TIMES, or there why there are none.

    Returns a sentence on what there is. For a build of the book: its pages, which run side by side, do not time anything.
    """
    try:
        for kind in KINDS:
            own(kind).save(folder / f"{kind}.json")
        return f"this machine's times: {own(HOOKS).verdict()}"
    except TramplabError as e:
        for kind in KINDS:
            (folder / f"{kind}.json").unlink(missing_ok=True)
            write_whole(folder / f"{kind}.txt", str(e))
        return f"no times of this machine: {e}"


def _from_folder(folder: Path, kind: str) -> Result:
    """A result that lies in a folder, or the reason that lies there for its absence."""
    try:
        why = (folder / f"{kind}.txt").read_text("utf-8").strip()
    except OSError:
        return load(folder / f"{kind}.json")
    raise TramplabError(why)


@functools.cache
def _own() -> tuple[Result, Result]:
    """The results of both kinds, kept or timed now; what cannot be kept is used all the same."""
    try:
        host.isa()
        names = _names()
        hooks, shapes = (cache.read(name) for name in names)
        if hooks is not None and shapes is not None:
            return parsed(hooks, names[0]), parsed(shapes, names[1])
        print("timing this machine, for up to a minute", file=sys.stderr, flush=True)
        both = _timed()
        with contextlib.suppress(TramplabError):  # a build has its own folder for them: see prepare()
            _keep(both)
        return both
    except TramplabError:
        raise
    except Exception as e:  # no trouble with times, expected or not, may decide whether a page is built
        raise TramplabError(f"this machine could not be timed ({type(e).__name__}: {e}).") from e


def renew() -> Result:
    """Time both kinds again and keep them in place of what is kept; returns the hooks'. Raises TramplabError where it fails."""
    host.isa()
    both = _timed()
    _keep(both)
    _own.cache_clear()
    return both[0]


def _timed() -> tuple[Result, Result]:
    from .timing import time_both  # what times is imported where something is to be timed

    return time_both()


def _keep(both: tuple[Result, Result]) -> None:
    for name, result in zip(_names(), both, strict=True):
        cache.keep(name, result.as_json())


def _names() -> list[str]:
    state = _state()
    return [f"native-{kind}-{state}.json" for kind in KINDS]


def _state() -> str:
    """A digest of the CPU, its kernel and everything that is timed: 16 hex digits."""
    h = sources(*_PARTS)
    h.update(repr(list(host.machine().values())).encode())
    return h.hexdigest()[:16]
