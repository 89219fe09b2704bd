"""Trampolines that differ in their save sets: they save what they say, the prototypes are right, and the room is shared out."""

import itertools

import pytest

from support.abi import abi, abi_calls, abi_places
from tramplab import Direct, Kernel, Ops, TramplabError
from tramplab.build.dwarf import Prototype, Value
from tramplab.estimate.measure import measure
from tramplab.isa import ISAS, get
from tramplab.lab.measure import FUNCTIONS
from tramplab.trampolines import saving, shapes
from tramplab.trampolines.arguments import live_registers

every_isa = pytest.mark.parametrize("isa", ISAS)
#: What ftrace_caller of v7.2 executes besides to find its ops and a direct call, and this generator does not; by hand. One of
#: arm64's is the landing pad, and one of riscv64's an instruction more by which the stack pointer gets to its slot.
FINDING = {"x86_64": 0, "arm64": 7, "riscv64": 5}


@pytest.fixture(scope="module", params=ISAS)
def kernel(request):
    return Kernel(request.param)


def added(kernel, function, ops):
    arguments = range(1, FUNCTIONS.index(function.name) + 1)
    idle = kernel.call(function, *arguments)
    with kernel.attached(function, ops):
        run = kernel.call(function, *arguments)
    assert run.value == idle.value and run.hits == (1,)
    return run.counts.total - idle.counts.total, run


# -- what they save


def test_own_args_is_the_kernels_trampoline_that_knows_its_ops(kernel):
    """As many instructions and bytes as ftrace_caller, without what finds the ops and looks for a direct call."""
    f = kernel.function("three_args")
    (own, run), (theirs, real) = (added(kernel, f, Ops(save=save)) for save in ("own-args", "args"))
    assert theirs.instructions - own.instructions == FINDING[kernel.isa.name]
    assert own.stores == theirs.stores and run.frame == real.frame


@pytest.mark.parametrize("release", ["v6.1", "v7.2"])
def test_own_regs_is_the_regs_trampoline_of_x86(release):
    """Four instructions less: it does not look for a direct call, and so does not copy what says that there is one."""
    k = Kernel("x86_64", release)
    (own, run), (theirs, real) = (added(k, k.function("two_args"), Ops(save=save)) for save in ("own-regs", "regs"))
    assert theirs.instructions - own.instructions == 4 and theirs.stores - own.stores == 1 and run.frame == real.frame


def test_larger_sets_cost_more(kernel):
    """live < ip <= ip+sp, and all is more than any; the frame is never written less."""
    f = kernel.function("two_args")
    cost = {save: added(kernel, f, Ops(save=save)) for save in saving.SETS}
    instructions = {save: counts.instructions for save, (counts, _) in cost.items()}
    written = {save: run.frame.written for save, (_, run) in cost.items()}
    for values in (instructions, written):
        assert values["live"] < values["ip"] < values["ip+sp"] < values["own-regs"]
        assert values["live"] < values["clobbered"] < values["own-regs"]
        assert values["own-args"] < values["own-regs"]


def test_live_grows_with_the_arguments(kernel):
    """By one store and one load for every argument that is in a register, and not at all beyond those."""
    stores = [added(kernel, kernel.function(name), Ops(save="live"))[0].stores for name in FUNCTIONS]
    registers = len(kernel.isa.args)
    assert [b - a for a, b in itertools.pairwise(stores)] == [1] * registers + [0] * (len(FUNCTIONS) - 1 - registers)


@pytest.mark.parametrize("name", abi_calls.FUNCTIONS)
def test_live_registers_are_those_whose_poison_shows(kernel, name):
    """A register is alive at a function's entry if its value matters; found by poisoning, not by prototype."""
    isa, image = kernel.isa, kernel.image
    memory = kernel.memory(5, 7, 9, 11)
    places = {"pointer_args": isa.args[:2], "big_struct_return": (isa.struct_return,)}.get(name, ())
    start = {r: 3 + n for n, r in enumerate((*isa.args, isa.struct_return))} | {
        r: memory + 8 * n for n, r in enumerate(places)
    }

    def outcome(changed: dict[str, int]) -> tuple:
        for n in range(4):
            kernel.machine.write_u64(memory + 8 * n, 5 + 2 * n)
        given = {isa.fp: kernel.machine.stack_top - 32, **start, **changed}
        raw = kernel.machine.call(kernel.function(name).address, given, list(range(21, 27)))
        pair = isa.returns if name == "struct_return" else isa.returns[: name != "big_struct_return"]
        return (*(raw.registers[r] for r in pair), *(kernel.machine.read_u64(memory + 8 * n) for n in range(4)))

    clean = outcome({})
    alive = {r for r in start if outcome({r: memory + 16 if r in places else 99}) != clean}
    assert alive == set(live_registers(isa, image.prototypes[name]))


@pytest.mark.parametrize("name", abi_calls.FUNCTIONS)
def test_live_keeps_what_each_function_takes(kernel, name):
    """Under a callback that spoils all it may: arguments, results and the caller's registers, for every traced function."""
    lab = abi.Lab(abi_places.Place(kernel.isa.name, "v7.2", ()))
    with lab.kernel.attached(None, abi_places.observing(save="live", filter=(name,))) as registered:
        hooked = abi.Hooked(lab, "ops-live-one", registered)
        for seed in range(20):
            hooked.check(seed, name)


def test_a_prototype_that_is_not_simple_is_refused():
    """A struct of more than two words travels in memory of its caller's; one that is split is alive in its register."""
    big, pair, word = Value(24, True), Value(16, True), Value(8)
    for isa in ISAS:
        with pytest.raises(TramplabError, match="argument 1 has 24 bytes; the lab knows where"):
            live_registers(get(isa), Prototype("f", (big,)))
    seven = {isa: live_registers(get(isa), Prototype("f", (word,) * 7 + (pair,))) for isa in ISAS}
    assert seven == {isa: get(isa).args[: {"x86_64": 6, "arm64": 7, "riscv64": 8}[isa]] for isa in ISAS}


# -- alone and in company


def test_a_second_ops_takes_the_trampoline_away_and_gives_it_back(kernel):
    """Alone the site leads to it, in company to the common trampoline; with CALL_OPS the literal follows the same rule."""
    f, slowpath = kernel.function("two_args"), kernel.slowpath
    listed, read = kernel.image.address("ftrace_list_ops"), kernel.machine.read_u64
    with kernel.attached(f, Ops(save="live")) as (own,):
        assert (
            slowpath.target("two_args") == own.trampoline and kernel.names()(own.trampoline) == "ftrace_trampoline[0]"
        )
        run = kernel.call(f, 1, 2)
        assert run.component_of(own.trampoline) == "trampoline" and run.hits == (1,)
        assert {run.symbol_of(s.pc) for s in run.steps} == {"two_args", "ftrace_trampoline[0]", "lab_callback"}
        assert f.site.literal is None or read(f.site.literal) == own.address
        for other in (Ops(), Ops(save="clobbered"), Direct()):
            with kernel.attached(f, other):
                assert slowpath.target("two_args") != own.trampoline and kernel.call(f, 1, 2).value == 13
                assert f.site.literal is None or read(f.site.literal) == listed
            assert slowpath.target("two_args") == own.trampoline
            assert f.site.literal is None or read(f.site.literal) == own.address


@every_isa
def test_text_is_as_before_afterwards(isa):
    k = Kernel(isa)
    spans = [(s.address, s.size) for s in k.image.segments if s.executable]
    before = [k.machine.read(*span) for span in spans]
    for save in saving.SETS:
        with k.attached(None, Ops(save=save, filter=("two_args",))):
            assert [k.machine.read(*span) for span in spans] != before
        assert [k.machine.read(*span) for span in spans] == before


def test_a_site_that_cannot_reach_it_goes_to_the_common_trampoline(monkeypatch):
    """On riscv64 since v6.16 a JALR reaches 2 KiB; the ops is served all the same."""
    k = Kernel("riscv64")
    f, caller = k.function("two_args"), k.image.address("ftrace_caller")
    monkeypatch.setattr(k.slowpath, "_reaches", lambda _, target: target == caller)
    with k.attached(f, Ops(save="ip")):
        run = k.call(f, 1, 2)
    assert run.hits == (1,) and "ftrace_caller" in {run.symbol_of(s.pc) for s in run.steps}


# -- what is refused


def test_the_room_can_be_full(kernel):
    """A clear sentence, nothing left behind, and room again after detaching."""
    f = kernel.function("two_args")
    with pytest.raises(TramplabError, match=r"the room for trampolines .* is full: detach one first"):
        kernel.attach(f, *(Ops(save="own-regs") for _ in range(20)))
    assert not kernel.slowpath.ops
    with kernel.attached(f, Ops(save="own-regs"), Ops(save="live")):
        assert kernel.call(f, 1, 2).hits == (1, 1)


def test_shapes_and_save_sets_share_one_room(kernel):
    """Side by side, and neither writes over the other."""
    f, g = kernel.function("two_args"), kernel.function("three_args")
    with kernel.attached(f, shapes.Shape(2, 0, True)), kernel.attached(g, Ops(save="ip")):
        assert kernel.call(g, 1, 2, 3).hits == (1, 0) and kernel.call(f, 5, 7).value == 50
    with kernel.attached(f, Ops(save="ip")), kernel.attached(g, shapes.Shape(3, 0, True)):
        assert kernel.call(f, 1, 2).hits == (0, 1) and kernel.call(g, 1, 2, 3).value == 34


def test_unknown_sets_and_old_releases_are_refused():
    with pytest.raises(TramplabError, match="unknown save set 'alive'; did you mean live"):
        Ops(save="alive")
    for isa, release, since in (("arm64", "v6.1", "since v6.2"), ("riscv64", "v6.4", "since v6.10")):
        k = Kernel(isa, release)
        with pytest.raises(
            TramplabError, match=f"hands over an ftrace_regs, which {isa} {release} has not; .* {since}"
        ):
            k.attach(k.function("one_arg"), Ops(save="ip"))
        assert not k.slowpath.ops


@pytest.mark.parametrize("hook", ["ops-ip", "ops-live", "ops-clobbered"])
def test_the_hooks_are_measured_like_any(hook):
    for isa in ISAS:
        m, plain = measure(isa, hook), measure(isa, "ops")
        assert m["components"]["callback"] == plain["components"]["callback"]
        assert m["return_mispredicts"] == plain["return_mispredicts"]
    with pytest.raises(TramplabError, match="takes one callback, not 2"):
        measure("arm64", hook, callbacks=2)
    with pytest.raises(TramplabError, match=f"has no {hook} hook; no kernel has it, and the lab makes it on riscv64 since v6.10"):
        measure("riscv64", hook, "v6.4")
