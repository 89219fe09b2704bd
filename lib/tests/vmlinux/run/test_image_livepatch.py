"""klp_ftrace_handler() of real kernels: it does what the lab's does, in about as many instructions."""

import pytest

from tramplab import Kernel, Ops
from tramplab.ftrace.facts import parse
from tramplab.ftrace.releases import LATEST
from tramplab.vmlinux.debian.fetch import there
from tramplab.vmlinux.debian.list import plain
from tramplab.vmlinux.hooks import livepatches
from tramplab.vmlinux.hooks.inplace import get, member
from tramplab.vmlinux.run import measure
from tramplab.vmlinux.run.machine import RealMachine
from tramplab.vmlinux.saved import store

#: Debian builds live patching for amd64 alone.
PACKAGES = [p.name for p in plain() if p.isa == "x86_64" and parse(p.release) <= parse(LATEST)]
NEW = 0xFFFFFFFF81234560


@pytest.fixture(scope="module", params=PACKAGES)
def image(request):
    package = next(p for p in plain() if p.name == request.param)
    if not there(package):
        pytest.skip(f"the kernel image {package.name} is not in the cache: `make kernels` fetches it")
    return package, RealMachine(store.opened(package))


def handled(machine, **state):
    """What the handler makes of the ip of a live patch in this state, and its instructions."""
    machine.reset()
    site = machine.function("bpf_fentry_test1").site
    ops, regs = livepatches.patch(machine, NEW, **state), machine.block(bytes(machine.opened.struct("pt_regs").size))
    registers = {"rdi": site.ip, "rsi": machine.machine.return_to, "rdx": member(machine, "klp_ops", ops, "fops"), "rcx": regs}
    run = machine.machine.call(machine.address("klp_ftrace_handler"), registers)
    return get(machine, "pt_regs", regs, "ip"), run.tally.instructions


def test_the_ip_is_changed_unless_the_patch_says_otherwise(image):
    """A replacement that is the function itself leaves it alone; so does a transition for a task that is not yet in one, of which
    the kernel warns."""
    _, machine = image
    assert handled(machine)[0] == NEW and handled(machine, nop=1)[0] == 0


@pytest.mark.parametrize("state, said", [({}, ""), ({"nop": 1}, "the new function ran 0 times, not 1")])
def test_a_hook_that_does_not_send_the_call_on_is_found_out(image, monkeypatch, state, said):
    _, machine = image
    whole = livepatches.patch
    monkeypatch.setattr(livepatches, "patch", lambda machine, new: whole(machine, new, **state))
    (found,) = measure.every(machine, names=["livepatch"])
    assert found.reason == said and found.status == (measure.FAILED if said else measure.MEASURED)


def test_it_executes_what_the_labs_does(image):
    """Within a tenth. The lab's counts its calls and finds its patch by a pointer, the kernel's does neither."""
    package, machine = image
    kernel = Kernel(package.isa, package.release)
    with kernel.attached("two_args", Ops(callback="lab_livepatch", go_to="new_two_args")):
        lab = kernel.call("two_args", 7, 9).counts.by_symbol["lab_livepatch"].instructions
    count = handled(machine)[1]
    assert abs(lab - count) <= 0.1 * count, (lab, count)
