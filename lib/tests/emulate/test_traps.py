"""Breakpoints: taken through the guest's own entry, counted, and left again with nothing changed but what the handler changed."""

import random

import pytest

from support.models import python_meter
from tramplab import Direct, GuestFault, Kernel, Ops, StepLimit
from tramplab.emulate.machine import COUNT, RECORD
from tramplab.emulate.walk import walk
from tramplab.ftrace import releases
from tramplab.ftrace.steps import Write
from tramplab.isa import ISAS

every_isa = pytest.mark.parametrize("isa", ISAS)


def with_breakpoint(isa: str, python: bool = False, **options) -> tuple[Kernel, int]:
    """A kernel in whose three_args the idle site's last instruction is a breakpoint that the handler goes on behind; and its
    address."""
    k = python_meter.kernel(python, isa, traps=True, **options)
    site, code = k.function("three_args").site, k.isa.breakpoints[0]
    filler = next(n for size, n in sorted(k.isa.nops.items()) if size == 1 or size == len(code))
    whole = code + filler * ((site.body - site.ip - len(code)) // len(filler))
    k.machine.poke(site.ip, whole.ljust(site.body - site.ip, filler[:1]))
    k.machine.write_u64(k.image.address("lab_trap_handler"), k.image.address("lab_trap_skip"))
    return k, site.ip


@every_isa
def test_a_breakpoint_changes_no_register_and_is_counted(isa):
    """Every register that the caller may choose, with the flags; the entry's instructions are the core's."""
    k, at = with_breakpoint(isa)
    f, rng, here = k.function("three_args"), random.Random(isa), k.isa
    idle = Kernel(isa)
    chosen = {r: rng.getrandbits(64) for r in here.registers if r not in (*here.fixed, here.link, here.sp)}
    plain, run = (x.call(f.name, 1, 2, 3, registers=chosen) for x in (idle, k))
    assert run.value == plain.value == 34
    assert {r: run.registers[r] for r in here.callee_saved} == {r: plain.registers[r] for r in here.callee_saved}
    assert k.machine.read_u64(k.image.address("lab_trap_count")) == 1
    order = [run.symbol_of(s.pc) for s in run.steps]
    assert order.index("lab_trap_entry") < order.index("lab_trap") < order.index("lab_trap_skip")
    inside = sum(name == "lab_trap_entry" for name in order)
    handler = run.counts.by_component["core"].instructions - inside
    assert handler > 10 and [s.pc for s in run.steps].count(at) == 1
    assert run.counts.by_component["function"] == plain.counts.by_component["function"]
    last = [s.pc for s in run.steps if run.symbol_of(s.pc) == "lab_trap_entry"][-1]
    assert last == k.image.address("lab_trap_return")


@every_isa
def test_at_the_body_every_register_is_what_it_was_at_the_breakpoint(isa):
    """Stopped at the first instruction behind the site: no register differs from a call without the breakpoint, not even the
    scratch ones, nor the flags."""
    seen = []
    for k in (Kernel(isa), with_breakpoint(isa)[0]):
        f, m, rng = k.function("three_args"), k.machine, random.Random(isa)
        flags = {"x86_64": ("eflags", 0x8D7), "arm64": ("pstate", 0xA << 28 | 0x3C5)}.get(isa)
        m.enter({r: rng.getrandbits(64) for r in k.isa.registers if r not in (*k.isa.fixed, k.isa.link)})
        if flags:
            m.set_register(*flags)
        registers = m.run(f.address, f.site.body).registers
        seen.append((registers, m.register(flags[0]) if flags else None))
    assert seen[0] == seen[1]


@every_isa
@pytest.mark.parametrize(("python", "meter"), [(False, COUNT), (True, RECORD), (True, COUNT)])
def test_all_meters_count_a_trap_alike(isa, python, meter):
    compiled, _ = with_breakpoint(isa)
    other, _ = with_breakpoint(isa, python, meter=meter)
    assert compiled.call("three_args", 1, 2, 3).counts == other.call("three_args", 1, 2, 3).counts


@every_isa
def test_a_trap_can_be_walked_through(isa):
    """An instruction at a time, the same way as in one go."""
    k, at = with_breakpoint(isa)
    f = k.function("three_args")
    whole = [s.pc for s in k.call(f, 1, 2, 3).steps]
    start, stack = k.passed((1, 2, 3), {})
    _, moments = walk(k.machine, f.address, start, stack)
    assert [m.pc for m in moments] == whole and at in whole


@every_isa
def test_a_breakpoint_that_nobody_claims_is_an_error_that_says_so(isa):
    k, _ = with_breakpoint(isa)
    k.machine.write_u64(k.image.address("lab_trap_handler"), 0)
    with pytest.raises(GuestFault, match="lab_trap_unclaimed"):
        k.call("three_args", 1, 2, 3)
    k.machine.write_u64(k.image.address("lab_trap_handler"), k.image.address("lab_trap_skip"))
    assert k.call("three_args", 1, 2, 3).value == 34


@every_isa
def test_without_a_vector_a_breakpoint_ends_the_call_where_it_is(isa):
    k = Kernel(isa)
    site = k.function("three_args").site
    k.machine.poke(site.ip, k.isa.breakpoints[0])
    with pytest.raises(GuestFault, match=r"three_args\+?0?x?[0-9a-f]* \("):
        k.call("three_args", 1, 2, 3)


@every_isa
def test_a_trap_that_comes_again_and_again_ends_at_the_budget(isa):
    """A handler that goes on at the breakpoint itself: a loop that is named."""
    k, at = with_breakpoint(isa)
    stub = "ftrace_stub"  # claims whatever its result register says, and does not move on
    k.machine.write_u64(k.image.address("lab_trap_handler"), k.image.address(stub))
    if isa == "x86_64":
        k.machine.poke(at, b"\xcc\xeb\xfd")  # the CPU is behind it already: back by a jump
    with pytest.raises((StepLimit, GuestFault), match="lab_trap"):
        k.call("three_args", 1, 2, 3, budget=20_000)


# -- x86-64: patching under breakpoints, as other CPUs meet it

@pytest.mark.parametrize("release", releases.shown())
@pytest.mark.parametrize("make", [Ops, lambda **k: Ops(save="regs", **k), Direct], ids=["args", "regs", "direct"])
def test_calls_between_any_two_steps_of_a_plan_are_right(release, make):
    """On both CPUs, whatever the site holds: a result that is right, and callbacks that are called not at all up to some
    step and always behind it; the same way back. Some calls do meet a breakpoint."""
    k = Kernel("x86_64", release, cpus=2, traps=True)
    f, request = k.function("three_args"), make(filter=("three_args", "one_arg", "two_args"))
    counted = k.image.address("lab_trap_count")

    def hits() -> list[int]:
        before = k.machine.read_u64(k.image.address("lab_direct_hits"))
        run = k.call(f, 1, 2, 3, cpu=len(seen) % 2)
        assert run.value == 34
        return k.machine.read_u64(k.image.address("lab_direct_hits")) - before + sum(run.hits)

    seen: list[int] = []
    ops, plan = k.slowpath.register(request)
    for _ in k.stepwise(plan):
        seen.append(hits())
    assert seen[0] == 0 and seen[-1] == 1 and seen == sorted(seen)
    met = k.machine.read_u64(counted)
    assert met > 0
    there = len(seen)
    for _ in k.stepwise(k.slowpath.unregister(ops)):
        seen.append(hits())
    back = seen[there:]
    assert back[-1] == 0 and back == sorted(back, reverse=True) and k.machine.read_u64(counted) > met
    assert k.machine.read_u64(k.image.address("lab_pokes_nr")) == 0


def test_a_plan_that_does_not_announce_its_breakpoints_is_found_out():
    """The test above can fail: without what the trap handler is told, a call ends in a breakpoint that nobody claims."""
    k = Kernel("x86_64", cpus=2, traps=True)
    told = k.image.address("lab_pokes_nr")
    _, plan = k.slowpath.register(Ops(filter=("three_args",)))
    with pytest.raises(GuestFault, match="lab_trap_unclaimed"):
        for step in k.stepwise(s for s in plan if not (isinstance(s, Write) and s.address == told)):
            k.call("three_args", 1, 2, 3, cpu=1), step


def test_more_sites_than_are_announced_at_once_go_in_batches(monkeypatch):
    """Every site of the guest in one plan; with room for three announcements as with room for all."""
    k = Kernel("x86_64", traps=True)
    symbol = k.image.symbol("lab_pokes")
    small = type(symbol)(symbol.name, symbol.address, 3 * k.image.struct("lab_poke").size)
    monkeypatch.setitem(k.image.symbols, "lab_pokes", small)
    ops, plan = k.slowpath.register(Ops())
    told = k.image.address("lab_pokes_nr")
    announced = [int.from_bytes(s.data, "little") for s in plan if isinstance(s, Write) and s.address == told]
    assert max(announced) == 3 and len(announced) > 2 * len(k.functions) // 3
    k.apply(plan)
    assert k.call("three_args", 1, 2, 3).hits == (1,)
    k.detach(ops)
