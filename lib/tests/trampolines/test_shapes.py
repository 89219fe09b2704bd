"""Trampolines of a given shape: they keep the calling convention, do what their shape says, and leave as it says."""

import random

import pytest

from tramplab import Direct, Kernel, Ops, TramplabError
from tramplab.ftrace import arch
from tramplab.isa import ISAS
from tramplab.lab.measure import FUNCTIONS
from tramplab.trampolines import shapes
from tramplab.trampolines.shapes import GRID, Shape

MASK = (1 << 64) - 1
WEIGHTS = (3, 5, 7, 11, 13, 17, 19, 23)
every_isa = pytest.mark.parametrize("isa", ISAS)

#: By hand, per ISA: instructions of one call of the leaf (x86-64's has a landing pad, riscv64 calls with two), those of
#: frame and way out, 8-byte words saved besides the chosen registers.
PER_CALL = {"x86_64": 3, "arm64": 2, "riscv64": 3}
FRAME = {"x86_64": 3, "arm64": 7, "riscv64": 7}
LINKS = {"x86_64": 0, "arm64": 4, "riscv64": 2}
WAYS_OUT = {
    "x86_64": {True: "ret", False: "jmp r11"},
    "arm64": {True: "ret x10", False: "br x10"},
    "riscv64": {True: "jr t0", False: "jr t1"},
}


@pytest.fixture(scope="module", params=ISAS)
def kernel(request):
    return Kernel(request.param)


def transfers(saves: int, isa: str) -> int:
    """Instructions that save so many registers: arm64's take two each."""
    return (saves + 1) // 2 if isa == "arm64" else saves


RETURNS = {"x86_64": ("ret",), "arm64": ("ret",), "riscv64": ("jr t0", "c.jr ra")}
CALLS = {"x86_64": ("call",), "arm64": ("bl ",), "riscv64": ("jalr t0", "jalr ra")}


def mispredicted_returns(run, kernel) -> int:
    """Returns that a return stack, holding the way back to the caller at first, gets wrong; from the text alone."""
    isa, stack, wrong = kernel.isa.name, [kernel.machine.return_to], 0
    steps = [s.pc for s in run.steps]
    for pc, after in zip(steps, [*steps[1:], kernel.machine.return_to], strict=True):
        instruction = kernel.machine.instruction_at(pc)
        if instruction.text.startswith(RETURNS[isa]):
            wrong += stack.pop() != after
        elif instruction.text.startswith(CALLS[isa]):
            stack.append(pc + instruction.size)
    return wrong


def test_the_grid_is_every_combination():
    """Forty different shapes, half of them balanced."""
    assert len(set(GRID)) == len({str(s) for s in GRID}) == 40
    assert sum(s.balanced for s in GRID) == 20
    assert {s.nested for s in GRID} == {0, 1, 2, 3} and {s.saves for s in GRID} == {2, 5, 8, 11, 14}


@pytest.mark.parametrize("shape", GRID, ids=str)
def test_a_shape_does_what_it_says(kernel, shape):
    """Counted by hand: saves, restores, calls of the leaf and the rest; it leaves by the instruction it should, and the
    return stack is right if it is balanced, wrong once if not."""
    isa, f = kernel.isa.name, kernel.function("two_args")
    idle = kernel.call(f, 5, 7)
    with kernel.attached(f, shape):
        run = kernel.call(f, 5, 7)
        wrong = mispredicted_returns(run, kernel)
        last = [s.pc for s in run.steps if run.component_of(s.pc) == "trampoline"][-1]
        way_out = kernel.machine.instruction_at(last).text
    assert run.value == idle.value == 50
    added = run.counts.total - idle.counts.total  # the site itself has as many instructions as when idle
    pop = isa == "x86_64" and not shape.balanced
    assert added.instructions == 2 * transfers(shape.saves, isa) + PER_CALL[isa] * shape.nested + FRAME[isa] + pop
    pushed = 1 + shape.nested if isa == "x86_64" else 0
    assert added.stores == added.loads == shape.saves + LINKS[isa] + pushed
    assert way_out == WAYS_OUT[isa][shape.balanced] and wrong == (not shape.balanced)


@pytest.mark.parametrize("shape", [s for s in GRID if s.nested != 2], ids=str)
def test_the_calling_convention_survives_a_shape(kernel, shape):
    """With every register random and a leaf that spoils all it may: arguments, callee-saved registers, stack and way back
    reach the body, the leaf has seen the arguments, and the result is right."""
    isa, machine = kernel.isa, kernel.machine
    args = min(shape.saves, len(isa.args))
    f = kernel.function(FUNCTIONS[args])
    rng = random.Random(f"{isa.name} {shape}")
    observing = Shape(shape.saves, shape.nested, shape.balanced, observe=True)
    observed, count = kernel.image.address("lab_observed"), kernel.image.address("lab_observed_count")
    at = observed + kernel.image.struct("lab_observation").fields["args"].offset
    with kernel.attached(f, observing):
        machine.write_u64(count, 0)
        names = [r for r in isa.registers if r not in isa.fixed and r != isa.link]
        entry = {r: rng.getrandbits(64) for r in names}
        machine.enter(entry)
        before = machine.registers()
        text = machine.read(f.address, f.size)
        machine.poke(f.address, text)  # what was translated for one end of a run must not serve another
        at_body = machine.run(f.address, f.site.body).registers
        machine.poke(f.address, text)
        kept = {*isa.args[:args], *isa.callee_saved, isa.sp, *([isa.link] if isa.link else [])}
        assert {r: at_body[r] for r in kept} == {r: before[r] for r in kept}
        after = machine.run(f.site.body, machine.return_to).registers
        assert {r: after[r] for r in isa.callee_saved} == {r: before[r] for r in isa.callee_saved}
        assert after[isa.sp] == before[isa.sp] + isa.call_pushes
        values = [entry[r] for r in isa.args[:args]]
        assert after[isa.returns[0]] == sum(w * v for w, v in zip(WEIGHTS, values, strict=False)) & MASK
        assert machine.read_u64(count) == shape.nested
        if shape.nested:
            seen = [machine.read_u64(at + 8 * i) for i in range(min(args, 6))]
            assert seen == values[:6]


@every_isa
def test_detaching_leaves_the_kernel_as_it_was(isa):
    """The function runs as before, other hooks can be attached, and another shape installed."""
    kernel = Kernel(isa)
    f = kernel.function("two_args")
    idle = kernel.call(f, 1, 2).counts.total
    for shape in GRID[:2]:
        with kernel.attached(f, shape):
            assert kernel.call(f, 1, 2).counts.total.instructions > idle.instructions
        assert kernel.call(f, 1, 2).counts.total == idle and not kernel.slowpath.ops
    with kernel.attached(f, Ops(), Direct()):
        assert kernel.call(f, 1, 2).hits == (0, 1)


@every_isa
def test_a_shape_fits_its_room(isa):
    """Even the largest, and the room is behind all other trampolines, in the padding of their page."""
    kernel = Kernel(isa)
    room = kernel.image.symbol(shapes.ROOM)
    assert max(len(shapes.code(kernel.image, s)) for s in GRID) <= room.size
    others = [s for n, s in kernel.image.symbols.items() if n != shapes.ROOM and s.size]
    assert not any(room.address <= s.address < room.address + room.size for s in others)
    assert room.address + room.size <= (room.address & -4096) + 4096


@every_isa
def test_nothing_of_the_last_shape_is_left(isa):
    """The room is as it was, and the next shape lies where the last one did."""
    kernel = Kernel(isa)
    room, f = kernel.image.symbol(shapes.ROOM), kernel.function("two_args")
    empty = kernel.machine.read(room.address, room.size)
    for shape in (GRID[-1], GRID[0]):
        with kernel.attached(f, shape):
            wanted = shapes.code(kernel.image, shape)
            assert kernel.machine.read(room.address, len(wanted)) == wanted and any(wanted)
        assert kernel.machine.read(room.address, room.size) == empty


@every_isa
def test_two_shapes_side_by_side(isa):
    """Each function has its own, as long as there is room; a third one is refused in a sentence."""
    kernel = Kernel(isa)
    f, g = kernel.function("one_arg"), kernel.function("two_args")
    with kernel.attached(f, Shape(2, 0, True)), kernel.attached(g, Shape(2, 1, True)):
        assert kernel.call(f, 5).value == 15 and kernel.call(g, 5, 7).value == 50
        assert kernel.slowpath.target("one_arg") != kernel.slowpath.target("two_args")
        with pytest.raises(TramplabError, match="the room for trampolines near the kernel's text is full"):
            kernel.attach(None, *(Shape(14, 3, False, filter=(n,)) for n in kernel.functions if n not in (f.name, g.name)))
        assert len(kernel.slowpath.ops) == 2


@every_isa
def test_a_shape_is_alone_on_its_function(isa):
    """Whichever comes first: through the common trampoline it would be another measurement."""
    kernel = Kernel(isa)
    f = kernel.function("one_arg")
    for first, second in ((GRID[0], Ops()), (Ops(), GRID[0]), (GRID[0], GRID[1]), (GRID[0], Direct())):
        with kernel.attached(f, first):
            with pytest.raises(TramplabError, match="one_arg"):
                kernel.attach(f, second)
            assert kernel.call(f, 5).value == 15 and len(kernel.slowpath.ops) == 1


@pytest.mark.parametrize("saves, nested", [(1, 0), (15, 0), (2, -1), (2, 4)])
def test_an_impossible_shape_is_refused(saves, nested):
    with pytest.raises(TramplabError, match=f"not {saves} and {nested}"):
        Shape(saves, nested, True)


@pytest.mark.parametrize("isa, release", [("arm64", "v6.3"), ("riscv64", "v6.7")])
def test_a_release_without_direct_calls_says_so(isa, release):
    kernel = Kernel(isa, release)
    with (
        pytest.raises(TramplabError, match="has no direct calls"),
        kernel.attached(kernel.function("one_arg"), GRID[0]),
    ):
        pass
    assert not kernel.slowpath.ops


def test_a_site_that_cannot_reach_the_shape_says_so(monkeypatch):
    """Through the common trampoline it would be another measurement."""
    kernel = Kernel("riscv64")
    f = kernel.function("one_arg")
    monkeypatch.setattr(arch.riscv64, "reaches", lambda *_: False)
    with pytest.raises(TramplabError, match="cannot reach"), kernel.attached(f, GRID[0]):
        pass
    assert not kernel.slowpath.ops and kernel.call(f, 5).value == 15
