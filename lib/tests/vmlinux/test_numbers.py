"""Kernels by what they have, not by their number: newer than any release known, older, and a vendor's own."""

import dataclasses
import json
from pathlib import Path

import pytest

from support.vmlinux.kernels import BASES
from tramplab import cli
from tramplab.base.errors import TramplabError
from tramplab.emulate.image import Image, Origin, Segment, Symbol
from tramplab.ftrace import releases
from tramplab.ftrace.ops import FL_RECURSION
from tramplab.isa import ISAS
from tramplab.isa.riscv64 import C_NOP, NOP4
from tramplab.vmlinux.booted import compiled, riscv64
from tramplab.vmlinux.booted.text import Text
from tramplab.vmlinux.debian.fetch import image, there
from tramplab.vmlinux.debian.list import packages
from tramplab.vmlinux.open.features import features
from tramplab.vmlinux.open.image import Opened, open_image
from tramplab.vmlinux.open.unpacking.payload import unpack
from tramplab.vmlinux.results import beside, facts
from tramplab.vmlinux.results import result as vmlinux_result
from tramplab.vmlinux.results.result import result
from tramplab.vmlinux.run import layout, measure, races
from tramplab.vmlinux.run.machine import FUNCTION, RealMachine
from tramplab.vmlinux.saved import store

EVERY = {p.name: p for p in packages()}
ONE = [p.name for p in packages() if p.one]
#: What x86-64's unwinder by frame pointers has, and no other.
FRAME_UNWINDER = ("unwind_state", "orig_sp")
#: Banners -> the mainline release that they are of.
BANNERS = {
    "7.3-rc7": "v7.3",
    "7.3.0-rc7": "v7.3",
    "7.4.0-rc2-next-20261120": "v7.4",
    "8.0.0-rc1": "v8.0",
    "10.11.12-dirty": "v10.11",
    "5.4.0-216-generic": "v5.4",
    "5.10.0-32-amd64": "v5.10",
    "5.14.0-503.el9.x86_64": "v5.14",
    "5.15.0-1063-azure": "v5.15",
    "6.6.0-android15-8-g1234567890ab-ab12345678": "v6.6",
    "6.8.0-51-generic": "v6.8",
    "6.12.107+deb13-amd64": "v6.12",
    "4.19.0": "v4.19",
}


def opened(name: str) -> Opened:
    if not there(EVERY[name]):
        pytest.skip(f"{name} has not been fetched (make kernels KERNELS=--one)")
    return store.opened(EVERY[name])


def rows(machine: RealMachine) -> list[dict]:
    """All hooks, without the words in which a kernel says its version."""
    told = json.dumps([measure.row(m) for m in measure.every(machine)])
    return json.loads(told.replace(machine.opened.version, "VERSION"))


@pytest.mark.parametrize("name", ONE)
def test_a_kernel_is_counted_by_what_it_has_whatever_its_number(name):
    kernel = opened(name)
    wanted = rows(RealMachine(kernel))
    assert sum(row["status"] == "measured" for row in wanted) > 10
    assert rows(RealMachine(dataclasses.replace(kernel, version="5.4.0-216-generic"))) == wanted


@pytest.mark.parametrize("name", ONE)
def test_features_are_those_of_the_release_that_a_kernel_is_of(name):
    """What is found in an image is what data/releases.yml says of its release, and stays when the banner says another number, but
    for what no image tells."""
    kernel, isa = opened(name), ISAS[EVERY[name].isa]
    known = releases.features(isa, EVERY[name].release, {})
    for banner in ("", *BANNERS):
        found = features(dataclasses.replace(kernel, version=banner or kernel.version), str(known["site"]))
        same = [feature for feature in found.values if not (banner and feature.startswith("bpf_") and feature != "bpf_program_nop")]
        assert len(same) >= 8 and {feature: found[feature] for feature in same} == {feature: known[feature] for feature in same}


def test_code_for_arguments_on_the_stack_is_in_stable_trees_too():
    """x86-64's save_args() is in 6.5.y, whose mainline release did not have it; without it the release decides."""
    kernel = opened("debian-6.12-amd64")
    without = {n: s for n, s in kernel.image.symbols.items() if n != "save_args"}
    gone = dataclasses.replace(kernel, image=dataclasses.replace(kernel.image, symbols=without))
    for made, version, takes in ((kernel, "6.5.13", "stack"), (gone, "6.5.13", "registers"), (gone, "6.6.1", "stack")):
        assert features(dataclasses.replace(made, version=version), "nop5")["bpf_args"] == takes


@pytest.mark.parametrize("banner", BANNERS)
def test_a_banner_says_the_mainline_release(banner):
    kernel = dataclasses.replace(_nothing(), version=banner)
    assert kernel.release == BANNERS[banner]
    assert releases.nearest(kernel.release) in releases.known()


def _nothing() -> Opened:
    return Opened(None, None, None, (0, 0), "", ())


@pytest.mark.parametrize("name", [n for n in ONE if EVERY[n].isa != "riscv64"])
def test_an_image_with_a_banner_of_the_future_runs_from_its_file(name, place, capsys):
    """Every hook, the lab's newest release beside it with a line that says so, and no number in a sentence of refusal."""
    kernel = opened(name)
    data = unpack(image(EVERY[name])).data
    old = b"Linux version " + kernel.version.encode()
    assert old in data
    place.write_bytes(data.replace(old, b"Linux version 8.0.0-rc1".ljust(len(old), b"x")))
    later = open_image(place)
    assert later.version.startswith("8.0.0-rc1x") and later.release == "v8.0"
    assert rows(RealMachine(later)) == rows(RealMachine(kernel))
    assert cli.main(["kernel", str(place), "--hook", "ops,ops:2", "--lab"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"the lab's {releases.known()[-1]} (the lab does not know v8.0, and this is the nearest that it does) beside it" in said
    assert cli.main(["kernel", "diff", str(place), str(place), "--hook", "ops"]) == 0
    assert "No hook differs" in capsys.readouterr().out


@pytest.mark.parametrize("name", [n for n in ONE if EVERY[n].isa in races.ISAS])
def test_what_is_explored_of_an_image_does_not_follow_its_number(name):
    kernel = opened(name)
    later = dataclasses.replace(kernel, version="8.0.0-rc1")
    assert [s.name for s, _ in races.subjects(later, None)] == [s.name for s, _ in races.subjects(kernel, None)]


def test_the_lab_beside_a_kernel_that_it_cannot_build_says_why():
    """A kernel of arm64 with direct calls and without a pointer to the ops beside each function."""
    config = {"DYNAMIC_FTRACE_WITH_CALL_OPS": False, "DYNAMIC_FTRACE_WITH_DIRECT_CALLS": True}
    config |= {"PREEMPTION": True, "PREEMPT_RCU": False, "UBSAN_BOUNDS": True}
    found = {"kernel": {"isa": "arm64", "release": "v8.0", "config": config}, "hooks": []}
    with pytest.raises(TramplabError, match=r"contradict each other on arm64"):
        list(beside.pairs(found))


@pytest.mark.parametrize("name", [n for n in ONE if EVERY[n].isa == "x86_64"])
def test_the_lab_beside_a_kernel_is_built_as_that_is_or_says_what_it_has_not(name, monkeypatch):
    """With frame pointers, without landing pads, and with lockdep, which the lab has not."""
    kernel = RealMachine(opened(name))
    assert beside.built(facts.of(kernel)) == []
    has = kernel.opened.types.has
    monkeypatch.setattr(kernel.opened.types, "has", lambda *asked: asked == FRAME_UNWINDER or has(*asked))
    symbols = {n: s for n, s in kernel.opened.image.symbols.items() if n != "ibt_save"}
    symbols["lock_acquire"] = Symbol("lock_acquire", kernel.address("schedule"), 16)
    kernel.opened = dataclasses.replace(kernel.opened, image=dataclasses.replace(kernel.opened.image, symbols=symbols))
    found = facts.of(kernel)
    assert beside.built(found)[0].startswith("built as this kernel: frame_pointer=True, ibt=False, trampoline_endbr=")
    assert beside.built(found)[1:] == ["not modelled: each lock and each RCU section is told to lockdep"]
    usual, other = (beside.lab("x86_64", found["release"], "ops", *o) for o in ((), beside.overrides(found)))
    assert other["trampoline"][0] == usual["trampoline"][0] + 7 and other["site"][0] == usual["site"][0] - 1


# Kernels up to v5.10: a bit with the opposite meaning


class Names:
    """Types that name only these constants."""

    def __init__(self, **known: int) -> None:
        self._known = known

    def enumerator(self, name: str) -> int | None:
        return self._known.get(name)


def test_an_old_kernel_has_the_opposite_of_the_recursion_flag():
    """v5.10 guards every ops that does not say RECURSION_SAFE; later kernels those that say RECURSION. It is the same bit."""

    class Machine:
        def __init__(self, **known: int) -> None:
            self.opened = dataclasses.replace(_nothing(), types=Names(**known))

    old, new = Machine(FTRACE_OPS_FL_RECURSION_SAFE=FL_RECURSION), Machine(FTRACE_OPS_FL_RECURSION=FL_RECURSION)
    assert layout.flags_of(old, 0) == FL_RECURSION and layout.flags_of(old, FL_RECURSION | 2) == 2
    assert [layout.flags_of(new, flags) for flags in (0, FL_RECURSION | 2)] == [0, FL_RECURSION | 2]


@pytest.mark.parametrize("name", ONE)
def test_flags_are_the_image_s_own(name):
    """The numbers that are laid out are those that the kernel's types give these names."""
    types = opened(name).types
    own = {
        "ENABLED": layout.FL_ENABLED,
        "INITIALIZED": layout.FL_INITIALIZED,
        "RECURSION": FL_RECURSION,
        "ALLOC_TRAMP": layout.FL_ALLOC_TRAMP,
        "SUBOP": layout.FL_SUBOP,
    }
    assert {flag: types.enumerator(f"FTRACE_OPS_FL_{flag}") for flag in own} == own


# riscv64 up to v6.2: a site of sixteen bytes

ADDI = b"\x13\x05\x15\x00"  # addi a0, a0, 1


def test_a_site_of_sixteen_bytes_is_idle_behind_its_last_nop():
    base, count, size, code = BASES["riscv64"], 4, 64, C_NOP * 8 + ADDI * 8
    data = bytes(size) + code.ljust(size, b"\0") * (count + 1)
    names = [*(f"f{n}" for n in range(count)), "ftrace_caller"]
    symbols = {name: Symbol(name, base + n * size, size) for n, name in enumerate(names)}
    segments = (Segment(base - size, data, len(data), True, False),)
    made = Image(ISAS["riscv64"], Path("Image"), Origin("", "", ""), segments, symbols, {}, {}, (), ())
    kernel, text = dataclasses.replace(_nothing(), image=made, text=(base, base + count * size + 8)), Text(made)
    shape, said = riscv64.boot(kernel, text, True)
    assert shape == "detour16" and said[0] == "4 patch sites: eight compressed NOPs became four NOPs"
    assert text.read(base, 20) == NOP4 * 4 + code[16:20]
    assert compiled("riscv64", text.read(base, 16), base, shape) == base
    text.write(base, ADDI)
    assert compiled("riscv64", text.read(base, 16), base, shape) is None


def test_a_result_says_its_release_as_the_kernel_does():
    kernel = RealMachine(dataclasses.replace(opened(ONE[0]), version="8.0.0-rc1"))
    found = result(kernel, "bpf_fentry_test1", [])
    assert found["kernel"]["release"] == "v8.0" and found["kernel"]["version"] == "8.0.0-rc1"
    (said,) = (line for line in found["kernel"]["found"] if "v8.0" in line)
    last = releases.known()[-1]
    assert said.startswith(f"v8.0 is not known: for which functions BPF makes trampolines is as in {last}, all else is")


@pytest.mark.parametrize("name", ONE[:1])
def test_a_kernel_without_bpf_s_test_function_is_measured_on_another(name, monkeypatch, capsys):
    kernel = opened(name)
    others = {n: s for n, s in kernel.image.symbols.items() if n != FUNCTION}
    without = dataclasses.replace(kernel, image=dataclasses.replace(kernel.image, symbols=others))
    monkeypatch.setattr(vmlinux_result, "open_image", lambda path: without)
    assert cli.main(["kernel", "vmlinuz", "--hook", "ops,bpf-fexit"]) == 0
    said = capsys.readouterr().out
    assert "calls of vfs_read()" in said and "vfs_read() returns" in said and "not there" not in said
    with pytest.raises(TramplabError, match=rf"has no {FUNCTION}\(\), which is called here: give a kernel with CONFIG_BPF"):
        races.stage(RealMachine(without))
