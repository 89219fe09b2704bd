"""What the processes of a build tell the one that watches over them: one line of JSON for everything that went wrong.

It goes through a socket, as the disk may be full. The socket also ends them: when the watching process is gone, or closes its
end, each that follows it ends at once, and with it the kernels and whatever else it has started.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 2000  # characters of a text: a line must go through the socket in one piece
_end: socket.socket | None = None
_following = 0


def use(end: socket.socket):
    """Tell through this end from now on, also in processes that are forked from this one."""
    global _end
    _end = end
    follow()


def tell(kind: str, **facts):
    """Tell one thing that went wrong; nothing where nobody watches, as when `jupyter-book` is run by itself."""
    if _end is not None:
        short = {name: fact[:LONGEST] if isinstance(fact, str) else fact for name, fact in facts.items()}
        _end.sendall(json.dumps({"kind": kind, **short}).encode() + b"\n")


def error(e: BaseException) -> dict:
    """What to tell of an exception: its name, what it says, and the innermost place in the book's own files."""
    e = getattr(e, "orig_exc", None) or e  # Sphinx puts one of its own around what an extension raised
    places = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(e.__traceback__)]
    own = [(path, line) for path, line in places if path.is_relative_to(ROOT) and not path.is_relative_to(sys.prefix)]
    at = f"{own[-1][0].relative_to(ROOT)}, line {own[-1][1]}" if own and own[-1][0].stem != "book_build" else ""
    return {"name": type(e).__name__, "sentence": str(e), "at": at}


def how_it_ended(status: int | None) -> str:
    """How a process ended, by what Python calls its return code.

    >>> how_it_ended(-9), how_it_ended(-11), how_it_ended(3)
    ('was killed (SIGKILL), which Linux does when memory runs out', 'ended by SIGSEGV', 'ended with status 3')
    """
    if status is None or status >= 0:
        return f"ended with status {status}"
    name = signal.Signals(-status).name
    return f"was killed ({name}), which Linux does when memory runs out" if name == "SIGKILL" else f"ended by {name}"


def title(where: dict) -> str:
    """The cell for a reader: its page, its line and its first line.

    >>> title({"page": "book/a.md", "line": 12, "cell": "rows = study.rows()"})
    'book/a.md, line 12, the cell `rows = study.rows()`'
    """
    cell = where["cell"] if len(where["cell"]) <= 72 else where["cell"][:71] + "…"
    return f"{where['page']}, line {where['line']}, the cell `{cell}`"


def follow():
    """End this process when the other end of the socket is closed; to be called in each process that is to end so."""
    global _following
    if _end is not None and _following != os.getpid():
        _following = os.getpid()
        threading.Thread(target=_wait_and_end, args=(_end,), daemon=True).start()


def _wait_and_end(end: socket.socket):
    while end.recv(1):
        pass
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    os._exit(1)
