"""What is made of a ftrace_regs: which registers of it arrive in a pt_regs, and what then says that this is the kernel."""

from __future__ import annotations

import pytest
from hypothesis import given

from support.models.register_lab import MODE, ROLES, few, lab, structures
from tramplab.base.errors import TramplabError
from tramplab.isa import ISAS
from tramplab.sparsity.consumers.consumers import STARTS, read
from tramplab.sparsity.structures import fills
from tramplab.sparsity.structures.fields import FTRACE_REGS, PT_REGS

every_isa = pytest.mark.parametrize("isa", ISAS)


def same_in_both(isa: str, fregs: dict[str, int], regs: dict[str, int]) -> dict[str, str]:
    """Field of a ftrace_regs -> that of a pt_regs for the same register."""
    called = {"fp": "x29", "lr": "x30"} if isa == "arm64" else {}
    return {name: called.get(name, name) for name in fregs if called.get(name, name) in regs and name != "unused"}


@every_isa
@few
@given(data=structures, room=structures)
def test_what_they_make_of_a_ftrace_regs(isa, data, room):
    """Every register that it has, and what says that this is the kernel; all else is as it was."""
    the = lab(isa)
    mode, kernel_mode = MODE[isa]
    for what in fills.FILLS:
        for state in fills.states(isa, what):
            the.put(FTRACE_REGS, data)
            the.put(PT_REGS, room)
            fregs, before = the.held(FTRACE_REGS), the.held(PT_REGS)
            found = fills.fill(the.kernel, what, the.at[FTRACE_REGS], the.at[PT_REGS], state)
            copied = isa != "x86_64" or what == "perf"
            assert found.copied == copied and found.address == the.at[PT_REGS if copied else FTRACE_REGS]
            if what == "partial" and not copied:
                flags = {"kernel": fregs["flags"] & ~2, "hardware": fregs["flags"] | 2}
                after = {**fregs, **({"cs": 0x10, "flags": flags[state]} if state in flags else {})}
                assert the.held(PT_REGS) == before
            else:
                taken = same_in_both(isa, fregs, before)
                if what == "perf":
                    _, _, ip, sp, fp, _ = ROLES[isa]
                    wanted = {"x86_64": {ip, sp}, "arm64": {ip, sp, fp}, "riscv64": set()}[isa]
                    taken = {name: field for name, field in taken.items() if field in wanted}
                after = {**before, **{field: fregs[name] for name, field in taken.items()}}
                if state in ("kernel", "caller"):
                    after |= {mode: kernel_mode} | ({"flags": 0} if isa == "x86_64" else {})
                assert set(found.read) == set(taken) and the.held(FTRACE_REGS) == fregs
            assert the.held(PT_REGS if copied else FTRACE_REGS) == after
            assert {name for name, value in after.items() if value != (before if copied else fregs)[name]} <= set(found.wrote)


@every_isa
def test_only_what_says_kernel_gives_a_callchain(isa):
    """A pt_regs of zeros, filled: plain copies and riscv64's perf fill leave user space in it, so nobody looks at a stack."""
    the = lab(isa)
    for what in fills.FILLS:
        for state in fills.states(isa, what):
            the.put(FTRACE_REGS, bytes(512))
            the.put(PT_REGS, bytes(512))
            address = fills.fill(the.kernel, what, the.at[FTRACE_REGS], the.at[PT_REGS], state).address
            lost = isa != "x86_64" and state in ("plain", "nothing")
            assert read(the.kernel, "user-mode", PT_REGS, address).answer == lost
            start = "nowhere" if lost else "registers" if isa != "x86_64" or state == "hardware" else "here"
            assert STARTS[read(the.kernel, "callchain", PT_REGS, address).answer] == start


def test_the_state_of_a_release():
    assert [fills.state(lab("x86_64", r).kernel, "partial") for r in ("v6.16", "v7.2")] == ["plain", "hardware"]
    assert fills.states("x86_64", "partial") == ("plain", "kernel", "hardware")
    assert fills.states("riscv64", "perf") == ("nothing",)
    with pytest.raises(TramplabError, match=r"arm64 v6\.1 has no such use of registers"):
        fills.state(lab("arm64", "v6.1").kernel, "partial")
