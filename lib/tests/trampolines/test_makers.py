"""Makers of trampolines: a new kind is one folder and one line, and the slow path knows none of them."""

import itertools
import re

import pytest

from support import ROOT
from tramplab import Bpf, Direct, Kernel, Ops, TramplabError
from tramplab.ftrace.maker import Maker, maker_of
from tramplab.ftrace.ops import Request
from tramplab.isa import ISAS
from tramplab.trampolines import KINDS
from tramplab.trampolines.placed import Placed
from tramplab.trampolines.shapes import Shape

#: Far from every ISA's text, and in nobody's way.
PLACE = 1 << 20
REQUESTS = [
    Ops(filter=("one_arg",)),
    Ops(save="live", filter=("one_arg",)),
    Direct(filter=("one_arg",)),
    Bpf(fentry=1, fexit=2, filter=("one_arg",)),
    Shape(2, 1, True, filter=("one_arg",)),
    Placed(at=PLACE, filter=("one_arg",)),
]


@pytest.mark.parametrize("isa", ISAS)
def test_every_request_has_one_maker(isa):
    k = Kernel(isa)
    for request in REQUESTS:
        serving = [m for m in k.slowpath.makers if m.serves(request)]
        assert len(serving) == 1 and maker_of(request, k.slowpath.makers) is serving[0]
    assert len(k.slowpath.makers) == len(KINDS)


def test_a_request_that_nobody_makes_is_refused():
    k = Kernel("arm64")
    with pytest.raises(TramplabError, match="no maker serves a request of the type Request"):
        k.attach(k.function("one_arg"), Request())
    assert not k.slowpath.ops


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("request_", REQUESTS, ids=repr)
def test_what_a_maker_takes_it_gives_back(isa, request_):
    """Over and over, in the same places; and freed twice is nothing freed."""
    k = Kernel(isa, room_at=(PLACE,))
    places = set()
    for _ in range(3):
        ops, steps = k.slowpath.register(request_)
        k.apply(steps)
        places.add((ops.index, ops.trampoline, ops.direct, ops.generated, tuple(ops.structs)))
        assert k.call("one_arg", 5).value == 15
        k.apply(k.slowpath.unregister(ops))
    assert len(places) == 1


def failing(real, at):
    """A method that does what the real one does, but raises at a certain call."""
    calls = itertools.count(1)

    def method(self, *arguments):
        if next(calls) == at:
            raise TramplabError("full.")
        return real(self, *arguments)

    return method


def test_a_refused_request_keeps_nothing(monkeypatch):
    """Whatever step of its making fails: the next one gets the place that it had."""
    k = Kernel("x86_64")
    first, steps = k.slowpath.register(Bpf(fentry=2, filter=("one_arg",)))
    k.apply(steps)
    k.detach(first)
    for owner, name, at in ((type(k.heap), "take", 3), (type(k.slowpath.memory), "writes", 1)):
        with monkeypatch.context() as m:
            m.setattr(owner, name, failing(getattr(owner, name), at))
            with pytest.raises(TramplabError, match="full"):
                k.attach(k.function("one_arg"), Bpf(fentry=2))
    again, _ = k.slowpath.register(Bpf(fentry=2, filter=("one_arg",)))
    assert (again.index, again.direct, list(again.structs)) == (first.index, first.direct, list(first.structs))


def test_a_maker_is_whoever_has_the_methods():
    """The protocol is what the slow path calls: nothing else of a maker is looked at."""
    methods = {n for n in vars(Maker) if not n.startswith("_")}
    assert methods == {"serves", "check", "make", "create", "free"}
    source = (ROOT / "lib" / "tramplab" / "ftrace" / "slowpath.py").read_text("utf-8")
    assert set(re.findall(r"maker(?:_of\([^)]*\))?\.(\w+)\(", source)) <= methods
    assert "isinstance(request" not in source and not re.findall(r"^from .*trampolines.*$", source, re.M)
