"""A function that Clang gives arguments in t-registers: who loses them, and who keeps them."""

import pytest

from support.publish.guarded import problem
from tramplab import Kernel, Ops
from tramplab_book.studies.shared.guests import with_functions
from tramplab_book.studies.variants.one_callback import own_convention
from tramplab_book.studies.variants.one_callback.own_convention import CALLER, FUNCTION, SOURCE


@pytest.fixture(scope="module")
def guest():
    with with_functions(SOURCE.read_text("utf-8")) as folder:
        yield folder


@pytest.mark.parametrize("isa", ["x86_64", "arm64"])
def test_elsewhere_clangs_convention_is_the_standard_one(isa, guest):
    """Of integers, on these ISAs: the further arguments are on the stack, and nothing is lost."""
    k = Kernel(isa, guest=guest)
    wanted = k.call(CALLER, 1, 2, 3, 4).value
    with k.attached(FUNCTION, Ops(callback="lab_observe_clobber")):
        assert k.call(CALLER, 1, 2, 3, 4).value == wanted


def test_by_hand(guest):
    """The result, computed from the source, with every argument; the standard function beside it keeps its own."""
    k = Kernel("riscv64", guest=guest, clang_frame=True)
    a, b, c, d = 5, 6, 7, 9
    words = (a, b, c, d, a ^ b, b ^ c, c ^ d, d ^ a, a + b, b + c, c + d, d + a)
    weights = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
    with k.attached(FUNCTION, Ops(callback="lab_observe_clobber")):
        assert k.call(CALLER, a, b, c, d).value == sum(w * x for w, x in zip(weights, words, strict=True)) + 1
    with k.attached("eight_args", Ops(callback="lab_observe_clobber")):
        assert k.call("eight_args", *range(1, 9)).value == sum(w * x for w, x in zip(weights, range(1, 9), strict=False))


def test_what_is_said_follows_the_rows():
    frame = own_convention.rows()
    assert not problem("clang-loses-arguments", frame)
    kept = frame.assign(result="right")
    assert "overwrites-wrong == releases" in problem("clang-loses-arguments", kept)
    late = frame.assign(lost=frame["lost"].where(frame["callback"] == "overwrites", ""))
    assert "v6-12-counts-lost == 1" in problem("clang-loses-arguments", late)
