"""Jobs that workers are given in tests of how they are handed out, in a module that takes no time to import."""

import os
import time
from pathlib import Path

from tramplab.base.errors import unknown
from tramplab.base.paths import write_whole


def double(n: int) -> int:
    return 2 * n


def begun(n: int) -> float:
    now = time.monotonic()
    time.sleep(0.02)
    return now


def sleep(n: float) -> int:
    """The worker, after so many seconds."""
    time.sleep(n)
    return os.getpid()


def own_id(n: int) -> int:
    time.sleep(0.2)
    return os.getpid()


def alone(n: int) -> int:
    """How many other jobs this process is at."""
    _at.append(n)
    time.sleep(0.05)
    others = len(_at) - 1
    _at.remove(n)
    return others


_at: list[int] = []


def refuse(n: int) -> int:
    raise unknown("number", n, [n + 1])


def fail(n: int) -> int:
    raise ZeroDivisionError(n)


def die(n: int) -> int:
    if n == 3:
        os._exit(7)
    return n


def wait_to_be_killed(name: str) -> int:
    """The worker; the first that begins it writes down who it is, and waits."""
    path = Path(name)
    if not path.exists():
        write_whole(path, str(os.getpid()))
        time.sleep(300)
    return os.getpid()
