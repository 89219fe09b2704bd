"""Jobs that workers are given in tests of how they are handed out, in a module that takes no time to import."""

import os
import time

from tramplab.base.errors import unknown


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
