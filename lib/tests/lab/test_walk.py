"""A call step by step: the steps are the call's own, replaying them gives its end, and its milestones are where they are said."""

import pytest

from tramplab.base.errors import GuestFault, TramplabError
from tramplab.emulate.counting.counts import COMPONENTS, Counts
from tramplab.emulate.walk import walk as machine_walk
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.lab.kernel import Kernel
from tramplab.lab.reading.walk import MILESTONES, milestones, walk
from tramplab.lab.reading.wording import Wording
from tramplab.trampolines.plain import Ops

CASES = [
    (isa, release, hook, count)
    for isa in ISAS
    for release in ("v5.17", "v6.4", "v7.2")
    for hook, count in (
        ("none", 1),
        ("ops", 1),
        ("ops", 2),
        ("ops-regs", 1),
        ("ops-ip", 1),
        ("ops-live", 1),
        ("direct", 1),
        ("direct+ops", 1),
    )
    if releases.features(ISAS[isa], release, {})[hooks.get(hook).needs]
]
ARGUMENTS = tuple(range(1, 9))


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case)))
def hooked(request):
    """A kernel with a hook attached, and a function of eight arguments."""
    isa, release, hook, count = request.param
    kernel = Kernel(isa, release)
    function = kernel.function("eight_args")
    with kernel.attached(function, *hooks.requests(hooks.get(hook), count)):
        yield kernel, function, hook


def component(w: dict, step: int) -> str:
    return w["symbols"][w["code"][w["steps"][step][0]][0]][1]


def test_replaying_the_moments_gives_the_machines_state(hooked):
    kernel, function, hook = hooked
    registers, moments = machine_walk(kernel.machine, function.address, *kernel.passed(ARGUMENTS, {}))
    memory: dict[int, int] = {}
    for m in moments:
        for address, size, value in m.loads:
            known = [memory.get(address + n) for n in range(size)]
            if value is not None and None not in known:
                assert bytes(known) == value.to_bytes(size, "little"), f"a load at {m.pc:#x} of what was not stored"
        registers |= m.changed
        for address, size, value in m.stores:
            memory |= {address + n: byte for n, byte in enumerate(value.to_bytes(size, "little"))}
    end = kernel.machine.registers()
    assert {**registers, kernel.isa.pc: end[kernel.isa.pc]} == end
    assert (memory or hook == "none") and {a: kernel.machine.read(a, 1)[0] for a in memory} == memory


def test_the_walk_is_the_call(hooked):
    """The same instructions and accesses by component as the counted call, whatever the registers were."""
    kernel, function, _ = hooked
    w, run = walk(kernel, function, *ARGUMENTS), kernel.call(function, *ARGUMENTS)
    found = dict.fromkeys(COMPONENTS, Counts())
    for step, (_, _, stores, loads) in enumerate(w["steps"]):
        found[component(w, step)] += Counts(1, len(loads), len(stores))
    counted = {
        c: (
            run.counts.by_component[c].instructions,
            run.counts.by_component[c].loads,
            run.counts.by_component[c].stores,
        )
        for c in COMPONENTS
    }
    assert {c: (n.instructions, n.loads, n.stores) for c, n in found.items()} == counted
    assert w["call"].endswith(f" = {run.value}")


def test_replaying_the_words_gives_the_end_of_the_call(hooked):
    """What the caller may rely on is back, told by the values' names alone."""
    kernel, function, _ = hooked
    w = walk(kernel, function, *ARGUMENTS)
    registers = dict(w["registers"])
    for _, changed, _, _ in w["steps"]:
        registers |= changed
    isa = kernel.isa
    value = kernel.call(function, *ARGUMENTS).value
    assert registers[isa.returns[0]] == (str(value) if value < 10 else hex(value))
    assert registers[isa.sp] == ("S" if not isa.call_pushes else f"S+{isa.call_pushes:#x}")
    for name in set(isa.callee_saved) - {isa.fp}:
        assert registers[name] == w["registers"][name] == f"{name}@0"


def test_memory_at_the_start_is_told_where_the_call_reads_before_it_writes(hooked):
    kernel, function, _ = hooked
    w = walk(kernel, function, *ARGUMENTS)
    first: dict[str, str] = {}
    for _, _, stores, loads in w["steps"]:
        for place in loads:
            first.setdefault(place, "both" if place in stores else "read")
        for place in stores:
            first.setdefault(place, "written")
    assert set(w["memory"]) == {place for place, how in first.items() if how == "read"}


def test_a_store_tells_the_value_of_every_place_that_it_changes():
    """arm64 reads the preempt count with the word behind it, and stores it alone."""
    kernel = Kernel("arm64", "v7.2")
    function = kernel.function("three_args")
    with kernel.attached(function, Ops(), Ops()):
        w = walk(kernel, function, *ARGUMENTS)
    alone, both = "init_task+0x8:4", "init_task+0x8"
    assert (w["memory"][alone], w["memory"][both]) == ("0", hex(1 << 32))
    told = [(changed[both], stores[alone]) for _, changed, stores, _ in w["steps"] if alone in stores]
    assert told == [(hex(1 << 32 | 1), "1"), (hex(1 << 32), "0")]


def test_milestones_are_in_order_and_where_they_are_said_to_be(hooked):
    kernel, function, hook = hooked
    w = walk(kernel, function, *ARGUMENTS)
    marks = w["milestones"]
    assert list(marks) == [name for name in MILESTONES if name in marks]
    assert list(marks.values()) == sorted(set(marks.values()))
    assert set(MILESTONES) - set(marks) == (set() if hook != "none" else {"save", "callback", "restore"})
    expected = {"site": "site", "save": "trampoline", "callback": "callback", "restore": "trampoline"}
    for name, step in marks.items():
        assert component(w, step) == expected.get(name, "function")
    assert marks["return"] == len(w["steps"]) - 1
    if hook != "none":
        after = {component(w, step) for step in range(marks["restore"], len(w["steps"]))}
        assert after <= {"site", "trampoline", "function"} and component(w, marks["callback"] - 1) != "callback"


def test_a_hook_inside_the_body_is_the_bodys():
    kernel = Kernel("arm64")
    outer, inner = kernel.function("calls_others"), kernel.function("two_args")
    with kernel.attached(inner, Ops()):
        run = kernel.call(outer, 1, 2, 3)
    assert run.hits == (1,) and list(milestones(run)) == ["site", "body", "return"]


@pytest.mark.parametrize(
    "isa, fields",
    [
        ("x86_64", {"di": "1", "si": "2", "dx": "3", "cs": "0", "ip": "three_args+0x9", "sp": "S"}),
        (
            "arm64",
            {"regs[0]": "1", "regs[1]": "2", "regs[2]": "3", "direct_tramp": "0", "pc": "three_args+0x8", "sp": "S"},
        ),
        ("riscv64", {"args[0]": "1", "args[1]": "2", "args[2]": "3", "t1": "0", "epc": "three_args+0x8", "sp": "S"}),
    ],
)
def test_the_words_of_the_frame_have_the_names_that_the_callback_knows_them_by(isa, fields):
    kernel = Kernel(isa)
    function = kernel.function("three_args")
    with kernel.attached(function, Ops()):
        w = walk(kernel, function, 1, 2, 3)
    stored = {}
    for _, _, stores, _ in w["steps"][: w["milestones"]["callback"]]:
        stored |= {w["fields"][place]: value for place, value in stores.items() if place in w["fields"]}
    assert {name: stored[name] for name in fields} == fields


def test_a_frame_that_is_no_ftrace_regs_has_no_names():
    """riscv64 up to v6.7 hands the callback a pointer to something else."""
    kernel = Kernel("riscv64", "v6.4")
    function = kernel.function("one_arg")
    with kernel.attached(function, Ops()):
        assert walk(kernel, function, 1)["fields"] == {}


def test_values_have_names_only_where_the_call_meets_them():
    """What an AUIPC leaves is on the way to a symbol, and lies in another one by chance."""
    kernel = Kernel("riscv64")
    function = kernel.function("one_arg")
    with kernel.attached(function, Ops()):
        w = walk(kernel, function, 1)
    assert w["code"][0][2].startswith("auipc") and w["steps"][0][1]["t0"].startswith("0x")
    assert w["steps"][1][1] == {"t0": "one_arg+0x8"}
    assert "one_arg-0x8" in w["memory"], "the ops pointer beside the function has a name"


def test_how_values_and_instructions_are_written():
    names = {0x4000: "f", 0x4008: "f+0x8", 0x4010: "f+0x10"}
    say = Wording(0x90000, {77: "x8"}, {0x5000: "f-0x8"}, {0x4008}, names.get, lambda a: 0x4000 <= a < 0x5000)
    values = (0x90000, 0x8FF00, 0x90008, 77, 9, 10, 2**64 - 16, 0x4000, 0x4008, 0x4010, 0x5000, 0x123456)
    assert list(map(say.value, values)) == (
        ["S", "S-0x100", "S+0x8", "x8@0", "9", "0xa", "-0x10", "f", "f+0x8", "0x4010", "f-0x8", "0x123456"]
    )
    assert (say.place(0x8FFF8, 8), say.place(0x8FFF8, 4)) == ("S-0x8", "S-0x8:4")
    texts = {
        "beqz t1, 8": "beqz t1, f+0x8",
        "c.j -0x10": "c.j 0x3ff0",
        "blr x4": "blr x4",
        "bl #0x0000000000004008": "bl f+0x8",
        "mov rdx, qword ptr [rip + 0x57]": "mov rdx, [rip+0x57]",
        "inc qword ptr [rax]": "inc qword [rax]",
        "inc dword ptr gs:[rip + 8]": "inc dword gs:[rip+8]",
        "mov qword ptr gs:[8], rax": "mov gs:[8], rax",
        "cmp rax, qword ptr [rdi - 8]": "cmp rax, [rdi-8]",
    }
    assert {text: say.instruction(text, 0x4000) for text in texts} == texts


def test_a_call_that_cannot_be_walked_says_why():
    kernel = Kernel("arm64", meter="count")
    with pytest.raises(TramplabError, match="meter='record'"):
        walk(kernel, kernel.function("no_args"))
    kernel = Kernel("arm64")
    with pytest.raises(GuestFault, match="guest fault on arm64"):
        machine_walk(kernel.machine, 0x1000, {})
    kernel = Kernel("x86_64")
    function = kernel.function("no_args")
    with (
        kernel.attached(function, *(Ops() for _ in range(120))),
        pytest.raises(TramplabError, match="more than 5000 instr"),
    ):
        walk(kernel, function)
    with kernel.attached(function, Ops(), Ops()):  # the guard that the broken call held is not held any more
        assert kernel.call(function).hits == (1, 1)


def test_a_kernel_walked_through_is_as_before():
    kernel = Kernel("x86_64")
    function = kernel.function("three_args")
    with kernel.attached(function, Ops()):
        before = kernel.call(function, 1, 2, 3).counts.by_component
        assert walk(kernel, function, 1, 2, 3)["steps"] != walk(kernel, function, 3, 2, 1)["steps"]
        assert kernel.call(function, 1, 2, 3).counts.by_component == before
