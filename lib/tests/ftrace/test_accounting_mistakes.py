"""Mistakes in registering and unregistering that test_accounting.py would find: each turns its comparison red."""

import dataclasses

import pytest

from support.models.accounting_subject import Subject, patched
from tramplab import Bpf, Direct, Ops
from tramplab.ftrace.records import Record
from tramplab.ftrace.slowpath import SlowPath
from tramplab.trampolines.bpf import BpfTrampolines
from tramplab.trampolines.saving import SavingOps


def keeps(flag: str):
    """A record keeps a flag when an ops goes."""

    def removed(self, ops, others, remove=Record.remove):
        had = self.has(flag)
        remove(self, ops, others)
        self.put(flag, had)

    return removed


def keeps_tramp(self, name, on, put=Record.put):
    put(self, name, on or name == "TRAMP")


def wrong_order(self, request, register=SlowPath.register):
    ops, steps = register(self, request)
    self.ops.append(self.ops.pop(0))
    return ops, steps


def shares(self, direct, ipmodify=False, shares=False, check=Record.check):
    check(self, direct, ipmodify, True)


def forgets_the_jump(self, ops, create=BpfTrampolines.create):
    steps = create(self, ops)
    ops.direct &= ~1
    return steps


def never_assisted(self, ops, create=SavingOps.create):
    whole = dataclasses.replace(ops, flags=0)
    steps = create(self, whole)
    ops.trampoline, ops.trampoline_size, ops.generated = whole.trampoline, whole.trampoline_size, whole.generated
    return steps


ONE = ("one_arg",)
TWO = (Ops(filter=ONE), Ops(save="regs", filter=ONE))


@pytest.mark.parametrize(
    ("owner", "name", "mistake", "requests"),
    [
        (Record, "put", keeps_tramp, TWO),
        (Record, "remove", keeps("REGS"), TWO),
        (SlowPath, "register", wrong_order, TWO),
        (Record, "remove", keeps("IPMODIFY"), (Ops(filter=ONE), patched("args", ONE))),
        (Record, "check", shares, (Direct(filter=ONE), patched("args", ONE))),
        (SlowPath, "_sharing", lambda self, ops: [], (Bpf(fexit=1, filter=ONE), patched("args", ONE))),
        (BpfTrampolines, "create", forgets_the_jump, (Bpf(fexit=1, filter=ONE),)),
        (SavingOps, "create", never_assisted, (Ops(save="live", recursion=True, filter=ONE),)),
    ],
)
def test_the_model_can_tell(monkeypatch, owner, name, mistake, requests):
    """The comparison notices when the package's rules are broken: each of these mistakes turns it red."""
    s = Subject("x86_64", "v7.2")
    with monkeypatch.context() as m, pytest.raises((AssertionError, pytest.fail.Exception)):
        m.setattr(owner, name, mistake)
        for request in requests:
            s.register(request)
            s.check()
        s.unregister(s.model.tracers[0])
        s.check()
