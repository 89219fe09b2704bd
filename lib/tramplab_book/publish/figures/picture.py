"""Charts as SVG inside the page, for every reader: with and without JavaScript, on a desktop and a phone, in print.

A page's cells leave the specs of their charts, and the book draws them at its end: run as a module with such files, this
makes of each fig-x.spec.json a fig-x.svg, which then takes its place in the page. Starting what draws takes longer than to draw
several pictures, and every page is executed in a process of its own. What was drawn is kept, under a name that says of what and by
what, so that a chart that is as it was is not drawn again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tramplab.base import cache
from tramplab.base.errors import TramplabError
from tramplab.base.processes import capacity

from . import inline, vega

DRAWING = 150  # MB of a process that draws (measured: 110)
SPEC, SVG = ".spec.json", ".svg"
_PLACE = re.compile(r' data-drawn="([^"]+)"></svg>')


def svg(spec: dict) -> str:
    """The SVG of a Vega-Lite spec with its data, as it stands in a page."""
    return inline.inline(vega.svg(spec))


def place(name: str) -> str:
    """The end of an <svg> element that waits for a drawing of this name."""
    return f' data-drawn="{name}"></svg>'


def placed(page: str, drawn: Callable[[str], str]) -> str:
    """A page with drawings in all their places; `drawn` gives the SVG of a name. What the element says of itself stays."""
    return _PLACE.sub(lambda found: drawn(found[1]).removeprefix("<svg"), page)


def draw_all(folder: Path) -> int:
    """Make the picture of every spec in a folder, in as many processes as the machine has room for; returns how many there are.

    Raises TramplabError, with what such a process said last, if one fails.
    """
    specs = sorted(folder.glob(f"*{SPEC}"))
    new = [str(spec) for spec in specs if not _kept(spec)]
    most = capacity.at_once(DRAWING)
    command = (sys.executable, "-P", "-m", __spec__.name)
    shares = [new[n::most] for n in range(min(most, len(new)))]
    drawing = [
        subprocess.Popen([*command, *share], stderr=subprocess.PIPE, encoding="utf-8", errors="replace") for share in shares
    ]
    said = [process.communicate()[1] for process in drawing]
    for process, words in zip(drawing, said, strict=True):
        if process.returncode:
            last = (words.splitlines() or [f"status {process.returncode}"])[-1]
            raise TramplabError(f"a chart's picture was not drawn: {last}")
    return len(specs)


def _kept(spec: Path) -> bool:
    """Put the picture of a spec in its place if it was kept."""
    drawn = cache.read(_name(spec.read_bytes()))
    if drawn is not None:
        _put(spec, drawn)
    return drawn is not None


def _keep(name: str, made: str) -> None:
    """Keep a picture; where that fails, it is made again the next time."""
    with contextlib.suppress(TramplabError):
        cache.keep(name, made)


def _put(spec: Path, drawn: bytes) -> None:
    spec.with_name(spec.name.removesuffix(SPEC) + SVG).write_bytes(drawn)
    spec.unlink()


def _name(spec: bytes) -> str:
    return f"picture-{hashlib.sha256(_drawing() + spec).hexdigest()[:24]}.svg"


@functools.cache
def _drawing() -> bytes:
    """Bytes for a digest of all that decides how a picture is drawn."""
    return b"".join(Path(f).read_bytes() for f in (vega.__file__, inline.__file__, __file__)) + vega.version().encode()


def main(specs: list[str]) -> None:
    """Draw these files' specs, each beside its file, which goes; ends with a line that names the file of one that fails."""
    for path in map(Path, specs):
        spec = path.read_bytes()
        try:
            drawn = svg(json.loads(spec))
        except ValueError as e:  # its first line says only that it failed, and from the third on it is a stack
            sys.exit(f"{path.name}: {' '.join(str(e).splitlines()[:2])}")
        _keep(_name(spec), drawn)
        _put(path, drawn.encode())


if __name__ == "__main__":
    main(sys.argv[1:])
