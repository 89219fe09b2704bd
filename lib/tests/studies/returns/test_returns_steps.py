"""The ways back, step by step: the rest of a walk is the end of the call, and notes say of returns what a return stack finds."""

import pytest

from tramplab.estimate.returnstack import replay
from tramplab.lab.reading.rest import rest
from tramplab.lab.reading.walk import walk
from tramplab.returns.mechanisms import get
from tramplab_book.studies.returns import return_steps
from tramplab_book.studies.returns.costs import return_costs
from tramplab_book.studies.returns.return_steps import FUNCTION, ISA, LEAVE, NOTES, TIDY, TRAMPOLINE, WALKS


@pytest.fixture(scope="module")
def walks():
    return {one["isa"]: one for one in return_steps.walks()}


@pytest.fixture(scope="module")
def whole():
    """The same calls from the site on."""
    out = {}
    for name, mechanism in WALKS.items():
        build = get(ISA, mechanism)
        kernel = build.kernel()
        with kernel.attached(kernel.function(FUNCTION), build.request()):
            out[name] = walk(kernel, kernel.function(FUNCTION), 1)
    return out


def places(one):
    """What every register and known place holds behind each step, with what the step executes."""
    held, out = {**one["registers"], **one["memory"]}, []
    for place, changed, stores, loads in one["steps"]:
        held |= changed | stores
        symbol, *rest_of_it = one["code"][place]
        out.append((one["symbols"][symbol], rest_of_it, dict(held), loads))
    return out


@pytest.mark.parametrize("name", WALKS)
def test_the_rest_is_the_end_of_the_whole(name, walks, whole):
    end, call = places(walks[name]), places(whole[name])
    call = call[len(call) - len(end) :]
    for (symbol, text, held, loads), (wanted, there, before, read) in zip(end, call, strict=True):
        assert (symbol, text, loads) == (wanted, there, read)
        assert {key: before[key] for key in held} == held
    assert end[0][0] == [FUNCTION, "function"] and end[-1][2]["rax"] == "3"
    assert all(held[place] for _, _, held, loads in end for place in loads if place.startswith("S"))


def test_a_rest_of_a_rest_is_the_rest(whole):
    """Cut twice or at once, the same is left."""
    call = whole["kretprobe"]
    once = rest(call, {"here": 300})
    assert rest(rest(call, {"there": 290}), {"here": 10}) == once and once["milestones"] == {"here": 0}
    assert rest(call, {"all": 0})["steps"] == call["steps"] and rest(call, {"all": 0})["memory"] == call["memory"]


@pytest.mark.parametrize("name", WALKS)
def test_what_is_said_of_the_last_return_is_what_a_return_stack_finds(name):
    """Mispredicted with those above, alone, or not at all."""
    found = replay(return_costs.calls(get(ISA, WALKS[name]))[0])
    said = NOTES[name][LEAVE, "ret"]
    assert ("mispredicted" in said) == (found.own > 1) and ("so are those above" in said) == (found.outer > 0)
    assert (": predicted" in said) == (found.own == found.outer == 0)


def test_parts_are_those_of_the_whole_call():
    """Behind the function there is less than the probe adds; the numbers are sums of the rows."""
    rows = return_steps.rows()
    n = return_steps.numbers(rows)
    costs = return_costs.totals(return_costs.rows()).set_index(["isa", "mechanism", "release"])["instructions"]
    for name, mechanism in WALKS.items():
        assert n[f"{name}-all"] == sum(n[f"{name}-{stretch}"] for stretch in (TRAMPOLINE, "handler", TIDY, LEAVE))
        assert n[f"{name}-all"] - n[f"{name}-handler"] < costs[ISA, mechanism, get(ISA, mechanism).release]
