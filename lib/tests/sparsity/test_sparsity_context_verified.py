"""Programs of a few lines, whatever the layout: what is found of spilled pointers, comparisons and paths, and what ends a run."""

import pytest

from tramplab.base.errors import TramplabError
from tramplab.sparsity.context import Refused
from tramplab.sparsity.context import verify as verifier
from tramplab.sparsity.context.refusal import (
    BY_PROGRAM,
    ESCAPE,
    INVALID,
    NUMBER,
    OUTSIDE,
    STORE,
    VARIABLE,
)
from tramplab.sparsity.context.run import Fault, run
from tramplab.sparsity.context.text import assembled
from tramplab.sparsity.context.verify import verify

#: Bytes of the context.
SIZE = 40
LOOKUP = "r1 = map 1 ll\nr2 = r10\nr2 += -8\n*(u64 *)(r10 - 8) = 0\ncall bpf_map_lookup_elem"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("exit", INVALID),  # r0 was never written
        ("r0 = r2\nexit", INVALID),
        ("r0 = 0", INVALID),
        ("r0 = 0\ngoto -2\nexit", INVALID),
        ("r0 = 0\ngoto +5\nexit", INVALID),
        ("goto +1\nr0 = 1 ll\nexit", INVALID),
        ("r10 = 0\nexit", INVALID),
        ("r0 = 1\nw0 <<= 32\nexit", INVALID),
        ("r0 = 1\nr0 s/= 0\nexit", INVALID),
        ("r0 = *(u64 *)(r10 - 8)\nexit", INVALID),
        ("*(u64 *)(r10 - 520) = 0\nexit", INVALID),
        ("*(u64 *)(r10 - 12) = 0\nexit", INVALID),
        ("r2 = 0x1000\nr0 = *(u64 *)(r2 + 0)\nexit", INVALID),
        ("call bpf_ktime_get_ns\nr0 = r1\nexit", INVALID),  # a call leaves nothing in r1
        (f"{LOOKUP}\nr0 = *(u64 *)(r0 + 0)\nexit", INVALID),  # which may be null
        ("r0 = r1\nexit", NUMBER),
        ("w0 = w1\nexit", NUMBER),
        ("r0 = 0\nif r1 != 0 goto +0\nexit", NUMBER),
        ("r0 = 0\nr2 = r1\nr2 -= r1\nexit", INVALID),
        ("r1 = -r1\nexit", NUMBER),
        ("*(u64 *)(r10 - 8) = r1\nr0 = *(u32 *)(r10 - 8)\nexit", ESCAPE),
        ("*(u32 *)(r10 - 8) = r1\nr0 = 0\nexit", ESCAPE),
        ("*(u64 *)(r10 - 8) = r1\nr1 = r10\nr1 += -16\nr2 = 8\nr3 = r10\nr3 += -8\ncall bpf_probe_read_kernel\nexit", ESCAPE),
        ("r2 = map 1 ll\nr3 = r1\ncall bpf_get_stackid\nexit", NUMBER),
        ("r1 += 8\ncall bpf_get_func_ip\nexit", VARIABLE),
        ("*(u64 *)(r1 + 0) = 1\nr0 = 0\nexit", STORE),
        ("r2 = 8\ncall bpf_probe_read_kernel\nexit", INVALID),  # into the context
    ],
)
def test_what_no_layout_helps(text, kind):
    found = verify(assembled(text), SIZE)
    assert isinstance(found, Refused) and found.kind == kind and kind in BY_PROGRAM
    assert str(found).startswith(f"instruction {found.at}, {found.text!r}: {found.why}")


def test_a_spilled_pointer_is_gone_where_its_slot_was_written():
    before = assembled("*(u64 *)(r10 - 8) = r1\n*(u8 *)(r10 - 8) = 0\nr2 = *(u64 *)(r10 - 8)\nr0 = *(u64 *)(r2 + 0)\nexit")
    assert verify(before, SIZE).why == "the address is a number"


def test_a_spilled_pointer_is_gone_where_a_helper_has_written():
    copy = "r1 = r10\nr1 += -12\nr2 = 8\nr3 = 0\ncall bpf_probe_read_kernel"
    there = "*(u64 *)(r10 - 8) = r1\n*(u64 *)(r10 - 16) = 0"
    before = assembled(f"{there}\n{copy}\nr2 = *(u64 *)(r10 - 8)\nr0 = *(u64 *)(r2 + 0)\nexit")
    assert verify(before, SIZE).why == "the address is a number"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("if r2 != 8 goto +2\nr1 += r2\nr0 = *(u64 *)(r1 + 0)", None),  # 8 is what was compared with
        ("if r2 == 8 goto +1\nr2 = 16\nr1 += r2\nr0 = *(u64 *)(r1 + 0)", None),
        ("if r2 == 8 goto +2\nr1 += r2\nr0 = *(u64 *)(r1 + 0)", "reads the context at an offset that is not a constant"),
        ("if r2 > 8 goto +2\nr1 += r2\nr0 = *(u64 *)(r1 + 0)", "reads the context at an offset that is not a constant"),
        ("if w2 != 8 goto +2\nr1 += r2\nr0 = *(u64 *)(r1 + 0)", "reads the context at an offset that is not a constant"),
        (f"{LOOKUP}\nif r0 == 0 goto +1\nr0 = *(u64 *)(r0 + 0)", None),  # where nothing was found r0 is 0, a number
        (f"{LOOKUP}\nif r0 != 0 goto +2\nr0 = *(u64 *)(r0 + 0)\nexit\nr0 = 0", "the address is a number"),
        (f"{LOOKUP}\nif r0 != 0 goto +1\nexit\nr0 = *(u64 *)(r0 + 0)", None),
        (f"{LOOKUP}\nif w0 == 0 goto +1\nr0 = *(u64 *)(r0 + 0)", "compares a map's value or null's address"),
        (f"{LOOKUP}\nr6 = r0\nif r0 == 0 goto +1\nr0 = *(u64 *)(r6 + 0)", None),  # and so is a copy of it
        (f"{LOOKUP}\nif r0 == 0 goto +1\nr0 = *(u64 *)(r0 + 64)", "8 bytes at 64 are not in a map's value of 64, or not aligned"),
    ],
)
def test_what_a_comparison_tells(text, why):
    found = verify(assembled(f"r0 = 0\nr2 = *(u64 *)(r1 + 0)\n{text}\nexit"), SIZE)
    assert (found.why if isinstance(found, Refused) else None) == why


def test_paths_are_followed_only_where_they_lead():
    """Of two branches that are known the one that is taken, of two that are not both."""
    text = "r2 = *(u32 *)(r1 + 8)\n{}\nr0 = 0\nif r2 != 7 goto +1\nr0 = *(u64 *)(r1 + 100)\nexit"
    assert verify(assembled(text.format("r3 = 1")), SIZE).kind == OUTSIDE
    assert not isinstance(verify(assembled(text.format("r2 = 6")), SIZE), Refused)


def test_too_many_paths_are_given_up(monkeypatch):
    """Each branch leaves something else behind, so that no two paths meet in the same state."""
    branches = "\n".join(f"*(u64 *)(r10 - {8 * n}) = 0\nif r2 > {n} goto +1\n*(u64 *)(r10 - {8 * n}) = 1" for n in range(1, 12))
    before = assembled(f"r0 = 0\nr2 = *(u64 *)(r1 + 0)\n{branches}\nexit")
    assert not isinstance(verify(before, SIZE), Refused)
    monkeypatch.setattr(verifier, "MOST", 1000)
    with pytest.raises(TramplabError, match="more than 1000 states"):
        verify(before, SIZE)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("r0 = *(u64 *)(r1 + 40)\nexit", "no memory of the program's"),
        ("*(u64 *)(r1 + 0) = 1\nexit", "the context's, which is read-only"),
    ],
)
def test_a_run_off_its_memory_is_an_error(text, error):
    with pytest.raises(Fault, match=error):
        run(assembled(text), bytes(SIZE))


def test_a_run_without_end_is_an_error():
    with pytest.raises(TramplabError, match="does not end"):
        run(assembled("r0 = 0\ngoto -2\nexit"), b"")
    with pytest.raises(TramplabError, match="continues at 1, where it has no instruction"):
        run(assembled("r0 = 0"), b"")
