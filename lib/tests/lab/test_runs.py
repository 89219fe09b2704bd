"""What a run says does not depend on what its kernel has become since, nor on when it is asked."""

import gc
import weakref

import pytest

from support.models.guests import every_isa
from tramplab import Kernel, Ops, TramplabError


def told(run) -> tuple:
    """What was executed, and how it is counted."""
    return {pc: i.text for pc, i in run.instructions.items()}, run.counts.total, run.symbols


@every_isa
def test_what_was_executed_is_what_text_was_then(isa):
    """The site is patched, and the trampoline of an ops that is gone made anew for another, before anybody asks."""
    k = Kernel(isa, meter="count")
    idle, asked = k.call("one_arg", 5), told(k.call("one_arg", 5))
    with k.attached("one_arg", Ops()):
        hooked, again = k.call("one_arg", 5), told(k.call("one_arg", 5))
    with k.attached("one_arg", Ops(), Ops()):
        k.call("one_arg", 5)
    assert told(idle) == asked and told(hooked) == again and asked != again


@every_isa
def test_what_was_executed_is_known_when_its_kernel_is_gone(isa):
    """And a run that is kept does not keep its kernel's memory."""
    k = Kernel(isa, meter="count")
    k.machine.watch(k.function("one_arg").site.body, lambda k=k: k)  # such as studies have
    run, asked, memory = k.call("one_arg", 5), told(k.call("one_arg", 5)), weakref.ref(k.machine.memory)
    del k
    gc.collect()
    assert memory() is None and told(run) == asked


def test_nothing_is_decoded_for_who_does_not_ask(monkeypatch):
    """Not at the call, nor when text changes after the run has gone."""
    k = Kernel("riscv64", meter="count")
    monkeypatch.setattr(k.machine.memory.code, "all", lambda addresses: pytest.fail("decoded"))
    assert k.call("one_arg", 5).value == 15
    with k.attached("one_arg", Ops()):
        assert k.call("one_arg", 5).value == 15


def test_what_cannot_be_decoded_is_said_to_who_asks():
    """Not to whoever changes text afterwards."""
    k = Kernel("x86_64", meter="count")
    asked = k.machine.memory.code.later(lambda: [0x10])
    with k.attached("one_arg", Ops()):
        assert k.call("one_arg", 5).value == 15
    with pytest.raises(TramplabError, match="nothing is mapped at 0x10"):
        asked()


@every_isa
def test_whether_an_instruction_was_executed_is_told_without_decoding(isa, monkeypatch):
    k = Kernel(isa, meter="count")
    with k.attached("one_arg", Ops()):
        run = k.call("one_arg", 5)
    ran = run.instructions
    code = [pc for lo, hi, _ in k.image.code for pc in range(lo, hi)]
    assert {pc for pc in {*code, *ran} if run.executed(pc)} == set(ran) and len(ran) < len(code)
    monkeypatch.setattr(k.machine.memory.code, "all", lambda addresses: pytest.fail("decoded"))
    assert k.call("one_arg", 5).executed(k.function("one_arg").address)


@every_isa
def test_so_many_steps_at_once_are_as_many_steps(isa):
    """Into the trampoline, where the first run of them was not."""
    k = Kernel(isa, meter="count")
    k.attach("one_arg", Ops())
    f, zeros = k.function("one_arg"), dict.fromkeys((r for r in k.isa.registers if r not in k.isa.fixed), 0)
    start, stack = k.passed((5,), zeros)

    def after(*counts):
        k.machine.enter(start, stack)
        for n, count in enumerate(counts):
            assert k.machine.step(k.machine.return_to, None if n else f.address, count)
        return k.machine.registers()

    places = [after(*[1] * n) for n in range(1, 20)]
    assert [after(n) for n in range(1, 20)] == places
    assert after(7, 12) == places[-1] and len({registers[k.isa.pc] for registers in places}) > 15
