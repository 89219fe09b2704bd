"""This machine's own times, taken once and kept; and the ones that were saved in data/native/.

Times differ from run to run. What is shown of them must not differ between two pages, so a machine is timed once per
state of the sources, and the result is kept beside the compiled images. `tramplab native` always measures anew.
`python -m tramplab.native.kept` takes the times now, where they can be had and are not there yet.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from ..emulate.toolchain import cache_dir
from ..errors import TramplabError
from ..paths import data_file, sources
from . import host
from .result import Result, load
from .timing import measure, time_shapes

HOOKS, SHAPES = "hooks", "shapes"
_MEASURE: dict[str, Callable[[], Result]] = {HOOKS: measure, SHAPES: time_shapes}
_PARTS = ("native", "guest", "ftrace", "isa", "emulate")


@functools.cache
def own(kind: str) -> Result:
    """This machine's times of the hooks or the shapes; raises TramplabError where nothing can run natively."""
    path = cache_dir() / f"native-{kind}-{_state()}.json"
    if path.is_file():
        return load(path)
    result = _MEASURE[kind]()
    path.parent.mkdir(parents=True, exist_ok=True)
    result.save(path)
    return result


def saved(kind: str) -> dict[str, Result]:
    """The results in data/native/ by the name of their file."""
    folder = data_file("releases.yml").parent / "native"
    found = {path.stem: load(path) for path in sorted(folder.glob("*.json"))}
    return {name: r for name, r in found.items() if ("saves" in r.rows[0]) == (kind == SHAPES)}


def shown(kind: str) -> tuple[Result, str]:
    """What a page shows: this machine's times and "", or the first saved ones and why these cannot be had."""
    try:
        return own(kind), ""
    except TramplabError as e:
        results = saved(kind)
        if not results:
            raise
        return next(iter(results.values())), str(e)


def _state() -> str:
    """Changes with the CPU, its kernel and everything that is timed: 16 hex digits."""
    h = sources(*_PARTS)
    h.update(repr(list(host.machine().values())).encode())
    return h.hexdigest()[:16]


def main() -> None:
    """Take the times now, where they can be had and are not there yet, and say where they are."""
    for kind in _MEASURE:
        _, why = shown(kind)
        print(f"times of the {kind}: {why or f'of this machine, in {cache_dir()}'}", flush=True)


if __name__ == "__main__":
    main()
