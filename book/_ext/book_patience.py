"""A cell may take as long as it takes; while it runs, the build says now and then which one it is and for how long."""

import asyncio
import sys
from contextlib import contextmanager

import book_told

AFTER = (20, 60, 120, 300, 600, 1200)  # seconds a cell has run when it is spoken of; from there on, each time twice as many


@contextmanager
def spoken_of(where: dict):
    """Say where the cell stands that is executed in the meantime, if it takes long."""
    speaking = asyncio.ensure_future(speak(where))
    try:
        yield
    finally:
        speaking.cancel()


async def speak(where: dict):
    """Say of a cell, now and then, that it still runs."""
    passed = 0
    for seconds in times():
        await asyncio.sleep(seconds - passed)
        passed = seconds
        say(f"== still executing {book_told.title(where)}, for {duration(seconds)} now")


def times():
    """When to speak, in seconds since the start."""
    yield from AFTER
    seconds = AFTER[-1]
    while True:
        seconds *= 2
        yield seconds


def duration(seconds: int) -> str:
    """
    >>> duration(20), duration(60), duration(7200)
    ('20 seconds', '1 minute', '2 hours')
    """
    units = ((3600, "hour"), (60, "minute"), (1, "second"))
    number, unit = next((seconds // size, unit) for size, unit in units if seconds >= size)
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def say(line: str):
    """A line of its own on the terminal, also from the processes whose log Sphinx collects until their page is read."""
    start = "\r\x1b[K" if sys.stdout.isatty() else ""  # there Sphinx ends its lines so that the next is written over them
    sys.stdout.write(f"{start}{line}\n")
    sys.stdout.flush()
