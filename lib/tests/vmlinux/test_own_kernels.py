"""Small kernels as somebody might build them (make own), those of them that are in the cache."""

import json

import pytest

from support.vmlinux import own_kernels
from support.vmlinux.own_kernels import KERNELS, KINDS
from tramplab.vmlinux import hooks
from tramplab.vmlinux.open.image import open_image
from tramplab.vmlinux.run import arguments, cfi
from tramplab.vmlinux.run.machine import RealMachine

every = pytest.mark.parametrize("name", KERNELS)


def path(name, kind="image"):
    """The path of a kernel's file."""
    return own_kernels.place(name, kind) or pytest.skip(f"the kernel {name} is not in the cache: `make own` builds it")


@every
def test_every_hook_that_it_has_is_measured(name, tramplab):
    """In its vmlinux, with DWARF and .symtab, as in what it boots from."""
    results = []
    for kind in KINDS:
        status, out, err = tramplab("kernel", str(path(name, kind)), "--json")
        assert (status, err) == (0, "")
        results.append(json.loads(out))
    one, other = ([row for row in result["hooks"] if row.pop("symbols", 1)] for result in results)
    assert one == other
    assert {row["hook"] for row in one if row["status"] == "measured"} >= {"ops", "ops:10", "graph", "kprobe-brk", "kprobe-brk-bpf"}


@pytest.mark.parametrize("name", [n for n, own in KERNELS.items() if own.isa != "x86_64"])
def test_its_sites_change_as_those_of_others(name, tramplab):
    status, out, err = tramplab("explore", "--image", str(path(name)))
    assert (status, err) == (0, "") and "safe" in out


@pytest.mark.parametrize("name", [n for n, own in KERNELS.items() if "CFI_CLANG" in own.options])
def test_a_callback_has_the_type_that_the_kernel_s_own_have(name):
    """ftrace_stub() is a callback, too: what lies before it lies before ours once the list function has called it."""
    machine = RealMachine(open_image(path(name)))
    function, read = machine.function(machine.usual), machine.machine.read
    hooks.get("ops:2").attach(machine, function)
    machine.call(function, arguments.registers(machine.isa))
    (ours,) = (made.address for made in machine.made if made.name == "callback")
    own, theirs = (read(at - cfi.ROOM, cfi.ROOM) for at in (ours, machine.address("ftrace_stub")))
    assert any(own) and all(mine in (0, theirs[n]) for n, mine in enumerate(own))
