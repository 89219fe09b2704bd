"""The ten instructions of the mail: by its text, by what their program finds, and by what a NOP in front of them does."""

import struct

import pytest

from tramplab import Kernel, Ops, TramplabError
from tramplab.trampolines.sketch import Sketch

FUNCTION, PROGRAM = "two_args", "lab_observe_direct_clobber"
MAIL = "push rbp|mov rbp, rsp|push rdi|push rsi|lea rdi, [rbp - 0x10]|call|pop rsi|pop rdi|leave|ret".split("|")


def called(*, swapped=False, nop=False):
    """The result of a call, the trampoline's instructions, and the two words that the program is given."""
    k = Kernel("x86_64", meter="record")
    with k.attached(FUNCTION, Sketch(swapped=swapped, nop=nop, program=PROGRAM)):
        run = k.call(FUNCTION, 70, 80)
        seen = k.image.address("lab_observed") + k.image.struct("lab_observation").fields["args"].offset
        words = struct.unpack("<2Q", k.machine.read(k.machine.read_u64(seen), 16))
    texts = [run.instructions[s.pc].text for s in run.steps if run.component_of(s.pc) == "trampoline"]
    assert run.value == k.call(FUNCTION, 70, 80).value, "the function gets its arguments whatever the program does"
    return texts, words


def test_it_is_the_mails_text_and_reverses_the_arguments():
    texts, words = called()
    assert [t.split(" 0xffff")[0] for t in texts] == MAIL
    assert words == (80, 70)


def test_the_other_order_of_pushing_is_right_and_no_longer():
    texts, words = called(swapped=True)
    assert sorted(t.split(" 0xffff")[0] for t in texts) == sorted(MAIL)
    assert words == (70, 80)
    assert called(nop=True)[0][1:] == called()[0] and called(nop=True)[0][0].startswith("nop")


def test_it_is_for_two_arguments_on_one_isa():
    with pytest.raises(TramplabError, match="one function of two arguments"):
        Kernel("x86_64").attach("three_args", Sketch())
    with pytest.raises(TramplabError, match="there are none for riscv64"):
        Kernel("riscv64").attach(FUNCTION, Sketch())


def test_what_it_took_is_given_back():
    k = Kernel("x86_64")
    idle = k.call(FUNCTION, 1, 2).counts
    for _ in range(3):
        with k.attached(FUNCTION, Sketch(), Ops()):
            assert k.call(FUNCTION, 1, 2).hits == (1, 0)
    assert k.call(FUNCTION, 1, 2).counts == idle
