"""The features of a probe on function returns, each a run of calls whose handlers write down what they see."""

from .call_data import TRIED, most_together
from .calls import SIZES, without_room
from .cell import HARMS, NO, OUTCOMES, PART, RANK, REFUSED, YES, Cell
from .stage import WORD, Seen, Stage
from .table import FEATURES, Feature, get, run

__all__ = [
    "FEATURES",
    "HARMS",
    "NO",
    "OUTCOMES",
    "PART",
    "RANK",
    "REFUSED",
    "SIZES",
    "TRIED",
    "WORD",
    "YES",
    "Cell",
    "Feature",
    "Seen",
    "Stage",
    "get",
    "most_together",
    "run",
    "without_room",
]
