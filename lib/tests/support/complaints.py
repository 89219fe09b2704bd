"""What every error has to be like, and that the kernel goes on after it."""

import re
from collections.abc import Callable, Iterable

import pytest

from tramplab import Kernel, Ops
from tramplab.base.errors import TramplabError

OBJECT = re.compile(r"<[\w.]+ (object|at) |Traceback|\bError\b|0x[0-9a-f]+L\b")


def complaint(call, kind=TramplabError) -> str:
    """The message of the error that a call raises: of the kind asked for, one line, one or more whole sentences,
    without an object's address or another exception behind it."""
    with pytest.raises(kind) as caught:
        call()
    e, message = caught.value, str(caught.value)
    assert type(e) is kind
    assert "\n" not in message and message.endswith(".") and message == message.strip()
    assert not OBJECT.search(message), message
    assert e.__cause__ is None and (e.__context__ is None or e.__suppress_context__)
    return message


def works(k: Kernel) -> None:
    """The kernel still does everything: plain and hooked calls, with the callback called once."""
    assert k.call("eight_args", *range(1, 9)).value == 562
    with k.attached(None, Ops(), Ops(recursion=True)):
        run = k.call("calls_others", 1, 2, 3)
        assert run.value == 13 * 11 + 3 * 3 + 13 * 5 + 1 * 7 and run.hits == (3, 3)


def refused(check: Callable[[str], object], names: Iterable[str]) -> dict[str, str]:
    """Name -> what a check says, of each name that it refuses: a test of many names in one."""
    found = {}
    for name in names:
        try:
            check(name)
        except AssertionError as e:
            found[name] = str(e)
    return found
