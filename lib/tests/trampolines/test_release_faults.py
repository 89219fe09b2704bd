"""Faults of releases run as they were: in the last release before one, in its first and its last, and in the one that fixed it."""

import pytest

from tramplab import Bpf, Direct, Kernel, Ops, TramplabError
from tramplab.ftrace import releases

FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
#: ISA -> releases at the edges of the three faults.
EDGES = {
    "x86_64": ("v5.19", "v6.0", "v6.3", "v6.4", "v6.6", "v6.7", "v6.8", "v6.17", "v6.18", "v7.2"),
    "arm64": ("v6.4", "v6.6", "v6.7", "v6.17", "v6.18", "v7.2"),
}
every_edge = pytest.mark.parametrize(("isa", "release"), [(isa, r) for isa, edges in EDGES.items() for r in edges])


class Tried:
    """A kernel with a live patch on the function, where direct calls may share it."""

    def __init__(self, isa, release):
        self.k = Kernel(isa, release, **releases.faulty(isa, release))
        self.guarded = bool(self.k.features["bpf"])
        save = "args" if self.k.features["args"] else "regs"
        self.patch = Ops(save=save, callback="lab_livepatch", go_to=f"new_{FUNCTION}")
        self.old = self.k.call(FUNCTION, *ARGUMENTS).value
        with self.k.attached(FUNCTION, self.patch):
            self.new = self.k.call(FUNCTION, *ARGUMENTS).value
        assert self.old != self.new

    def bpf(self, **kinds):
        return Bpf(guarded=self.guarded, **kinds)

    def result(self):
        """Whose result a call has, and does a program run?"""
        run = self.k.call(FUNCTION, *ARGUMENTS)
        return {self.old: "old", self.new: "new"}[run.value], "lab_bpf_count" in run.symbols


def fault(isa, release, use):
    return isa == "x86_64" and releases.broken(isa, release, use) is not None


@every_edge
def test_a_direct_call_beside_an_ops(isa, release):
    """Not made in v6.4 to v6.7 of x86-64, unless an ops asks for all registers; without an ops always; and made where the fault is
    not asked for."""
    k = Kernel(isa, release, **releases.faulty(isa, release))
    broken = fault(isa, release, "direct_beside_ops")
    saves = ["args", *(["regs"] if k.features["regs"] else [])]
    for save in saves:
        with k.attached(FUNCTION, Direct(), Ops(save=save)):
            run = k.call(FUNCTION, *ARGUMENTS)
            assert run.hits[0] == 1 and ("lab_direct_callback" in run.symbols) == (not broken or save == "regs")
    with k.attached(FUNCTION, Direct()):
        assert "lab_direct_callback" in k.call(FUNCTION, *ARGUMENTS).symbols
    if broken:
        meant = Kernel(isa, release)
        with meant.attached(FUNCTION, Direct(), Ops()):
            assert "lab_direct_callback" in meant.call(FUNCTION, *ARGUMENTS).symbols


@every_edge
def test_fexit_after_a_live_patch(isa, release):
    """Refused in v6.7 to v6.17, and so is every later direct call of the function, but of no other one; before it nothing is."""
    tried = Tried(isa, release)
    k, kept = tried.k, releases.parse("v6.7") <= releases.parse(release) <= releases.parse("v6.17")
    if not k.features["direct_shares"]:
        with pytest.raises(TramplabError, match="-EBUSY"):
            k.attach(FUNCTION, tried.patch, tried.bpf(fexit=1))
        return
    with k.attached(FUNCTION, tried.bpf(fexit=1), tried.patch):
        assert tried.result() == ("new", not fault(isa, release, "direct_beside_ops"))
    if not kept:
        with k.attached(FUNCTION, tried.patch, tried.bpf(fexit=1)):
            assert tried.result() == ("new", not fault(isa, release, "direct_beside_ops"))
        return
    for _ in range(2):
        with pytest.raises(TramplabError, match="takes no direct call any more"):
            k.attach(FUNCTION, tried.patch, tried.bpf(fexit=1))
        assert tried.result() == ("old", False)
    with pytest.raises(TramplabError, match="takes no direct call any more"):
        k.attach(FUNCTION, Direct())
    with k.attached("two_args", tried.bpf(fexit=1)):
        assert "lab_bpf_count" in k.call("two_args", 1, 2).symbols


@every_edge
def test_fexit_that_joins_fentry(isa, release):
    """After a live patch it brings back the old function on x86-64 from v6.0 to v6.17; when fentry was there first, or without a
    live patch, it does not."""
    tried = Tried(isa, release)
    k, called = tried.k, not fault(isa, release, "direct_beside_ops")
    both = tried.bpf(fentry=1, fexit=1)
    with k.attached(FUNCTION, tried.bpf(fentry=1)) as (direct,):
        k.modify(direct, both)
        assert tried.result() == ("old", True) and k.call(FUNCTION, *ARGUMENTS).symbols >= {"lab_bpf_count"}
    idle = k.call(FUNCTION, *ARGUMENTS).counts
    if not k.features["direct_shares"]:
        return
    with k.attached(FUNCTION, tried.patch, tried.bpf(fentry=1)) as (_, direct):
        k.modify(direct, both)
        lost = called and fault(isa, release, "live_patch_fentry_fexit")
        assert tried.result() == ("old" if lost else "new", called)
    with k.attached(FUNCTION, tried.bpf(fentry=1), tried.patch) as (direct, _):
        k.modify(direct, both)
        assert tried.result() == ("new", called)
    assert k.call(FUNCTION, *ARGUMENTS).counts == idle, "what was made twice is given back"


def test_what_joins_must_be_a_direct_call_that_is_there():
    k = Kernel("x86_64")
    (ops,) = k.attach(FUNCTION, Ops())
    with pytest.raises(TramplabError, match="attach it first"):
        k.modify(ops, Bpf(fentry=1))
    (direct,) = k.attach("two_args", Bpf(fentry=1))
    with pytest.raises(TramplabError, match="39 programs"):
        k.modify(direct, Bpf(fentry=39))
    assert "lab_bpf_count" in k.call("two_args", 1, 2).symbols
