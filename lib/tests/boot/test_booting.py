"""A real kernel booted: one of x86-64, where it has been fetched and QEMU is there, and what the command says of what it cannot
do."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace

import pytest

from support.vmlinux import own_kernels
from tramplab.base.errors import TramplabError
from tramplab.boot import module, plan, saved, trials
from tramplab.boot.probes import PROBES
from tramplab.boot.qemu import MACHINES
from tramplab.cli import main
from tramplab.ftrace.ops import FL_RECURSION
from tramplab.vmlinux.debian.fetch import content, there
from tramplab.vmlinux.debian.list import plain
from tramplab.vmlinux.open.image import open_image
from tramplab.vmlinux.open.unpacking.payload import unpack
from tramplab.vmlinux.results.result import machine_of

PACKAGE = next(p for p in plain() if p.one and p.isa == "x86_64")
SOME = ("ops", "ops:2", "direct+ops", "fprobe-exit", "kretprobe", "bpf-fentry", "kprobe-event", "bpf-fsession", "ops-assist")
bootable = pytest.mark.skipif(
    not there(PACKAGE) or not shutil.which("qemu-system-x86_64"), reason=f"{PACKAGE.name} is not fetched, or there is no QEMU"
)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    path = tmp_path_factory.mktemp("image") / "bzImage"
    path.write_bytes(content(PACKAGE))
    return path


@bootable
def test_a_boot_counts_what_is_saved(image, capsys):
    """To the instruction, whatever else was measured before."""
    assert main(["boot", str(image), "--probe", ",".join(SOME), "--json"]) == 0
    out, err = capsys.readouterr()
    found, kept = json.loads(out), saved.read(PACKAGE)
    assert found["loop"] == 3 and found["before"] == found["after"] == {"getpid": kept["before"]["getpid"]}
    for row in found["probes"]:
        of = saved.row(kept, row["probe"])
        same = ("probe", "refused", "handlers", "hits", "left")
        assert {name: row.get(name) for name in same} == {name: of.get(name) for name in same}
        assert row["probe"] == "kprobe-event" or row.get("added") in (of.get("added"), of.get("reversed"))
    assert err.splitlines() == [f"{n} of {len(SOME)}: {name}" for n, name in enumerate(SOME, 1)]


@bootable
def test_what_an_optimised_kprobe_leaves_is_waited_for(image, capsys):
    """The jump stays in the text until RCU tasks have been waited for: probes that follow would count what it executes, too."""
    some = ("kprobe-inside-optimised", "ops", "kprobe-bpf", "kprobe-inside-optimised")
    assert main(["boot", str(image), "--probe", ",".join(some), "--json"]) == 0
    found, kept = json.loads(capsys.readouterr().out), saved.read(PACKAGE)
    assert [row["added"] for row in found["probes"]] == [saved.row(kept, name)["added"] for name in some]
    assert not any("left" in row for row in found["probes"])


@bootable
def test_a_guard_stays_on_x86_64(image, capsys):
    assert main(["boot", str(image), "--trial", "guard-lost", "--json"]) == 0
    read = dict(json.loads(capsys.readouterr().out)[::-1])  # the first reading of each label
    plain, guarded, left, both = (
        read[label]["instructions"] for label in ("plain", "guarded", "plain-left", "guarded-and-plain")
    )
    assert plain < guarded == left < both
    assert read["calls-itself-after"] == {"is": "module", "called": 2, "missed": 0, "odd": 0}


@bootable
def test_a_boot_that_is_given_up_keeps_what_there_is(image, capsys):
    """And one that the kernel's command line ends at once says so in one line."""
    assert main(["boot", str(image), "--probe", "ops", "--append", "init=/nothing rdinit=/nothing"]) == 2
    out, err = capsys.readouterr()
    assert not out and "does not boot to its end" in err and "Kernel panic" in err and len(err.splitlines()) == 1


@bootable
def test_the_module_of_an_image(image):
    """Its handlers are counted by their instructions, each with its return."""
    opened = open_image(image)
    file = module.made(opened)
    assert set(module.handlers(opened.isa, file)) == set(module.HANDLERS)
    assert module.made(opened) == file and b"vermagic=6.12" in file
    assert f"#define OPS_SIZE {opened.struct('ftrace_ops').size}\n" in module.layout(opened)


@bootable
@pytest.mark.parametrize("magic", [b'6.12 SMP"\n#include "/etc/passwd"\n"', b"6.12 \\", b"", b"6.12\xff", b"6.12 " + 300 * b"x"])
def test_a_vermagic_that_none_can_be_is_not_compiled(image, magic, monkeypatch):
    """It goes into C between quotes."""
    opened = open_image(image)
    at = opened.address("vermagic")
    segments = list(opened.image.segments)
    number = next(n for n, s in enumerate(segments) if s.address <= at < s.address + s.size)
    data, there = segments[number].data, at - segments[number].address
    segments[number] = replace(segments[number], data=data[:there] + magic + b"\0" + data[there + len(magic) + 1 :])
    monkeypatch.setattr(module.toolchain, "module", lambda *_: pytest.fail("compiled"))
    with pytest.raises(TramplabError, match=r"has a vermagic that no kernel has, .*: get the whole file again"):
        module.made(replace(opened, image=replace(opened.image, segments=tuple(segments))))


@bootable
@pytest.mark.parametrize(
    "script, says",
    [
        ("echo begin; echo end", "but the count of ops did not arrive"),
        ("echo begin; echo say; echo counted 1 2 3; exec sleep 600", "damaged what the booted process writes, 'counted 1 2 3'"),
        ("echo begin; echo probe graph; exec sleep 600", "damaged what the booted process writes, 'probe graph'"),
        ("echo begin; exec yes '' | tr '\\n' x", "writes a line of more than 65536 bytes"),
        ("echo begin; echo refused; exec sleep 600", "damaged what the booted process writes, 'refused'"),
    ],
)
def test_a_strange_console_ends_the_boot_in_a_sentence(image, script, says, monkeypatch, tmp_path, capsys):
    """At once, and with QEMU."""
    (program := tmp_path / MACHINES["x86_64"].program).write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    started = time.monotonic()
    assert main(["boot", str(image), "--probe", "ops"]) == 2
    out, err = capsys.readouterr()
    assert says in err and len(err.splitlines()) == 1 and not out and time.monotonic() - started < 500


@bootable
def test_a_module_that_is_refused_is_said(image, tmp_path, capsys):
    """Probes are measured all the same, but not all that was asked for has been done."""
    (other := tmp_path / "other.ko").write_bytes(b"junk")
    assert main(["boot", str(image), "--probe", "bpf-fentry", "--module", str(other), "--csv"]) == 2
    out, err = capsys.readouterr()
    assert out.splitlines()[1].startswith("bpf-fentry,")
    assert err.splitlines()[-1].startswith(f"tramplab: {image} refuses other.ko (ENOEXEC), so not all of this is measured.")


@bootable
def test_a_kernel_without_a_security_hook_loses_one_row(image, monkeypatch, capsys):
    machine = machine_of(image)
    for name in ("security_task_prctl", "__x64_sys_swapon"):
        del machine.opened.image.symbols[name]
    monkeypatch.setattr("tramplab.boot.command.machine_of", lambda _: machine)
    assert main(["boot", str(image), "--probe", "bpf-fmodret,ops+10-elsewhere", "--json"]) == 0
    absent, row = json.loads(capsys.readouterr().out)["probes"]
    assert absent == {"probe": "bpf-fmodret", "absent": "security_task_prctl() cannot be traced in this kernel"}
    assert row["added"] == saved.row(saved.read(PACKAGE), "ops+10-elsewhere")["added"]
    del machine.opened.image.symbols[plan.LEAF]
    assert main(["boot", str(image), "--probe", "ops"]) == 2
    err = capsys.readouterr().err
    assert f"has no patch site in {plan.LEAF}(), which getpid() calls" in err and "--function" not in err


@bootable
def test_the_module_of_an_older_kernel(image, monkeypatch):
    """Up to v5.15 a direct call is registered by its address, and up to v5.10 the guard's flag means the opposite."""
    opened = open_image(image)
    assert "DIRECT_BY_ADDRESS" not in module.layout(opened) and "#define FLAGS_TURNED 0\n" in module.layout(opened)
    old = replace(opened, version="5.10.0-32-amd64")
    monkeypatch.setattr(type(old.types), "enumerator", lambda _, name: 16 if name == "FTRACE_OPS_FL_RECURSION_SAFE" else None)
    header = module.layout(old)
    assert "#define DIRECT_BY_ADDRESS 1\n" in header and f"#define FLAGS_TURNED {FL_RECURSION}\n" in header
    assert set(module.handlers(old.isa, module.made(old))) == set(module.HANDLERS)


@bootable
@pytest.mark.parametrize("lacks", ["register_kprobe", "register_kretprobe", "register_fprobe_ips", "register_ftrace_direct"])
def test_the_module_of_a_kernel_without_a_kind_of_probe(image, lacks):
    opened = open_image(image)
    symbols = {name: symbol for name, symbol in opened.image.symbols.items() if name != lacks}
    file = module.made(replace(opened, image=replace(opened.image, symbols=symbols)))
    assert lacks.encode() not in file and lacks.encode() in module.made(opened)


#: Its source is Debian's, which takes no symbol without a checksum, and its configuration forces none.
STRICT = "x86_64-fp"


@pytest.mark.parametrize("name", own_kernels.KERNELS)
def test_small_kernels_load_our_module(name, capsys):
    """With CFI, whose kernels look for a hash before what they call; or it is said that one does not, in its own words."""
    image, isa = own_kernels.place(name, "boot"), own_kernels.KERNELS[name].isa
    if image is None or not shutil.which(MACHINES[isa].program):
        pytest.skip(f"the kernel {name} is not in the cache (`make own` builds it), or there is no {MACHINES[isa].program}")
    status = main(["boot", str(image), "--probe", "ops,ops:2,kprobe,kretprobe,bpf-fmodret", "--json"])
    out, err = capsys.readouterr()
    *found, absent = json.loads(out)["probes"]
    if name == STRICT:
        assert status == 2 and "refuses tramplab.ko (ENOEXEC)" in err and "no symbol version for module_layout" in err
        assert all(row["absent"] == "the kernel refused our module" for row in found)
        return
    assert status == 0
    assert all(row.get("hits") == row.get("expected") != {} for row in found) and not any("refused" in row for row in found)
    assert absent["absent"] == "security_task_prctl() cannot be traced in this kernel"


@pytest.mark.parametrize("name", ["init", "plan", "tramplab.ko", "two words.ko", "-x.ko", "sys"])
def test_a_module_cannot_take_the_place_of_a_file_of_ours(name, tmp_path, capsys):
    (path := tmp_path / name).write_bytes(b"")
    assert main(["boot", str(tmp_path / "nothing"), "--module", str(path)]) == 2
    err = capsys.readouterr().err
    assert "cannot have this name in the boot" in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--json", "--csv"], "--json and --csv are ways to show a result: choose one."),
        (["--trial", "guard-lost", "--probe", "ops"], "leave --probe and --csv away"),
        (["--probe", "opps"], "ops"),
        (["--trial", "guard"], "guard-lost"),
        (["--seconds", "0"], "give a number above 0"),
        (["--seconds", "nan"], "give a number above 0"),
        (["--module", "/nothing.ko"], "/nothing.ko cannot be read"),
        ([], "there is no file"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(arguments, says, capsys, tmp_path):
    assert main(["boot", str(tmp_path / "nothing"), *arguments]) == 2
    err = capsys.readouterr().err
    assert says in err and len(err.splitlines()) == 1


@bootable
def test_an_elf_file_is_not_booted(image, capsys, monkeypatch, tmp_path):
    path = tmp_path / "vmlinux"
    path.write_bytes(unpack(image).data)
    machine = machine_of(image)
    monkeypatch.setattr("tramplab.boot.command.machine_of", lambda _: machine)
    assert main(["boot", str(path), "--trial", "guard-lost"]) == 2
    assert "is an ELF file, which QEMU does not boot: give the bzImage or Image" in capsys.readouterr().err


@bootable
def test_every_probe_can_be_planned(image):
    machine = machine_of(image)
    text = plan.plan(machine, list(PROBES.values()))
    assert "{" not in text and text.count("say probe ") == len(PROBES)
    for trial in trials.TRIALS.values():
        steps = trial.text(machine)
        assert "{" not in steps and f"module {plan.MODULE}\n" in steps and steps.count("say say ") > 0
        assert max(len(steps), len(text)) < 1 << 17  # MAX_PLAN of init/init.c
