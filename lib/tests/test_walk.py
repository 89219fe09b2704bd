"""A call step by step: the steps are the call's own, replaying them gives its end, and its milestones are where they are said."""

import pytest

from tramplab.emulate.counts import COMPONENTS
from tramplab.emulate.walk import walk as machine_walk
from tramplab.errors import GuestFault, TramplabError
from tramplab.ftrace import hooks, releases
from tramplab.ftrace.kernel import Kernel
from tramplab.ftrace.ops import Ops
from tramplab.ftrace.walk import MILESTONES, TOP, walk
from tramplab.isa import ISAS
from tramplab.studies import first_callback

CASES = [
    (isa, release, hook, count)
    for isa in ISAS
    for release in ("v5.17", "v7.2")
    for hook, count in (("none", 1), ("ops", 1), ("ops", 2), ("ops-regs", 1), ("direct", 1), ("direct+ops", 1))
    if releases.features(ISAS[isa], release, {})[hooks.get(hook).needs]
]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case)))
def walked(request):
    """A kernel with a hook attached, the counted call of a function with eight arguments, and its walk."""
    isa, release, hook, count = request.param
    kernel = Kernel(isa, release)
    function = kernel.function("eight_args")
    with kernel.attached(function, *hooks.requests(hooks.get(hook), count)):
        yield kernel, hook, kernel.call(function, *range(1, 9)), walk(kernel, function, *range(1, 9))


def test_the_walk_is_the_call(walked):
    """The same instructions by component as the counted call, whatever the registers were."""
    _, _, run, w = walked
    components = [w["symbols"][w["code"][place][0]][1] for place, _, _ in w["steps"]]
    assert {c: components.count(c) for c in COMPONENTS} == {
        c: run.counts.by_component[c].instructions for c in COMPONENTS
    }
    assert w["call"].endswith(f" = {run.value}")
    listed = [
        line.split(None, 1)[0] for line in run.disassembly().splitlines()[1:] if line.endswith("]") and "  [" in line
    ]
    headings = [w["symbols"][w["code"][place][0]][0] for place, _, _ in w["steps"]]
    assert [h for i, h in enumerate(headings) if i == 0 or h != headings[i - 1]] == listed


def test_replaying_the_changes_gives_the_end_of_the_call(walked):
    kernel, _, run, w = walked
    registers, memory = dict(item.split("=", 1) for item in w["start"]), {}
    for _, changed, written in w["steps"]:
        registers |= dict(item.split("=", 1) for item in changed)
        memory |= dict(item.split("=", 1) for item in written)
    end = kernel.machine.registers()
    assert registers[kernel.isa.returns[0]] == str(run.value)
    assert len(registers) == len(end) - 1  # all but the program counter
    stack = end[kernel.isa.sp] - kernel.isa.call_pushes
    for place, value in memory.items():
        if place.startswith(TOP) and ":" not in place and value.lstrip("-").isdigit():
            assert kernel.machine.read_u64(stack + int(place[1:] or 0)) == int(value) % (1 << 64)


def test_milestones_are_in_order_and_where_they_are_said_to_be(walked):
    _, hook, _, w = walked
    marks = w["milestones"]
    assert list(marks) == [name for name in MILESTONES if name in marks]
    assert list(marks.values()) == sorted(set(marks.values()))
    assert set(MILESTONES) - set(marks) == (set() if hook != "none" else {"save", "callback", "restore"})

    def component(step):
        return w["symbols"][w["code"][w["steps"][step][0]][0]][1]

    expected = {"site": "site", "save": "trampoline", "callback": "callback", "restore": "trampoline"}
    for name, step in marks.items():
        assert component(step) == expected.get(name, "function")
    assert marks["return"] == len(w["steps"]) - 1
    if hook != "none":
        after = range(marks["restore"], len(w["steps"]))
        assert "callback" not in {component(step) for step in after} and component(marks["callback"] - 1) != "callback"


def test_values_have_names_only_where_the_call_meets_them():
    """What an AUIPC leaves is on the way to a symbol, and lies in another one by chance."""
    kernel = Kernel("riscv64")
    function = kernel.function("one_arg")
    with kernel.attached(function, Ops()):
        w = walk(kernel, function, 1)
    (first,) = w["steps"][0][1]
    assert w["code"][0][2].startswith("auipc") and first.startswith("t0=0x")
    assert w["steps"][1][1] == ["t0=one_arg+0x8"]


def test_a_call_that_cannot_be_walked_says_why():
    kernel = Kernel("arm64", meter="count")
    with pytest.raises(TramplabError, match="meter='record'"):
        machine_walk(kernel.machine, kernel.function("no_args").address, {})
    kernel = Kernel("arm64")
    with pytest.raises(GuestFault, match="guest fault on arm64"):
        machine_walk(kernel.machine, 0x1000, {})
    kernel = Kernel("x86_64")
    function = kernel.function("no_args")
    with (
        kernel.attached(function, *(Ops() for _ in range(120))),
        pytest.raises(TramplabError, match="more than 5000 instr"),
    ):
        machine_walk(kernel.machine, function.address, {})


def test_a_kernel_walked_through_is_as_before():
    kernel = Kernel("x86_64")
    function = kernel.function("three_args")
    with kernel.attached(function, Ops()):
        before = kernel.call(function, 1, 2, 3).counts.by_component
        assert walk(kernel, function, 1, 2, 3)["steps"] != walk(kernel, function, 3, 2, 1)["steps"]
        assert kernel.call(function, 1, 2, 3).counts.by_component == before


def test_the_study_counts_what_the_stepper_shows():
    rows = first_callback.rows()
    for w in first_callback.walks():
        part = rows[rows["isa"] == w["isa"]]
        assert part["instructions"].sum() == len(w["steps"]) and list(part["from"]) == list(w["milestones"])
