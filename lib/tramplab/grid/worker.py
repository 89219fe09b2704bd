"""A worker process: reads units, a JSON object a line, and answers each with a line. It ends when nobody asks any more."""

from __future__ import annotations

import functools
import json
import os
import sys

from ..errors import TramplabError
from ..lab.kernel import Kernel
from .cells import Unit
from .rows import answer


@functools.cache
def _kernel(isa: str, release: str) -> Kernel:
    return Kernel(isa, release)


def reply(line: str) -> dict:
    """The answer to one line: columns, rows and refused, or error, the sentence of a TramplabError."""
    asked = json.loads(line)
    unit = Unit(**{**asked, "callbacks": tuple(asked["callbacks"])})
    try:
        columns, found = answer(unit, _kernel(unit.isa, unit.release))
    except TramplabError as e:
        return {"error": str(e)}
    return {"columns": columns, "rows": found.rows, "refused": found.refused}


def main() -> None:
    """Serve until standard input ends, or nobody reads the answers; what was begun is finished first."""
    try:
        for line in sys.stdin:
            print(json.dumps(reply(line)), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
