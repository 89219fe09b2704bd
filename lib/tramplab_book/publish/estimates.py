"""What cycles in a table are: estimates, by models of cores. The line below it that says so."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

MODELS = 3  # that are named one by one
_CYCLES, _ESTIMATE = "cycles", "estimate"  # what columns are called
_BAND = re.compile(r"\d \(-?\d[\d.]* to ")


def models(frame: pd.DataFrame) -> str:
    """The words for the models by which the cycles of rows were estimated.

    >>> import pandas as pd
    >>> models(pd.DataFrame({"core": ["zen3", "zen3", "skylake"]})), models(pd.DataFrame({"isa": ["arm64"]}))
    ('models of zen3, skylake', 'models of cores')
    """
    cores = _cores(frame)
    return f"models of {', '.join(cores) if 0 < len(cores) <= MODELS else 'cores'}"


def beneath(text: str, table: pd.DataFrame, frame: pd.DataFrame, width: int) -> str:
    """The line for below a table that is printed as `text`, wrapped; "" for a table without cycles or bands, and for one that says
    itself what is estimated and by which models. frame: the rows it is of.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"isa": ["x86_64"], "core": ["zen3"], "cycles": [7.0], "low": [6.0], "high": [9.0]})
    >>> print(beneath("isa ... cycles", rows[["isa", "cycles"]], rows, 40), end="")
    <BLANKLINE>
    The lab's cycles are estimates with
    their band, by models of zen3.
    >>> print(beneath("isa ... loads", rows[["isa"]], rows, 40), end="")
    """
    cores, titles = _cores(frame), " ".join(map(str, table.columns))
    banded, named = bool(_BAND.search(text)), all(core in text for core in cores)
    estimated = bool(cores) and (_CYCLES in titles or banded)
    if not estimated or _ESTIMATE in titles or (named and _ESTIMATE in text):
        return ""
    band = " with their band" if banded or {"low", "high"} <= set(frame.columns) else ""
    said = f"The lab's cycles are estimates{band}, by {'the models of these cores' if named else models(frame)}."
    return "\n" + textwrap.fill(said, width, break_on_hyphens=False) + "\n"


def _cores(frame: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(map(str, frame["core"].dropna()))) if "core" in frame.columns else []
