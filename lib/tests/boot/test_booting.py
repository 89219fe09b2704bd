"""A real kernel booted: one of x86-64, where it has been fetched and QEMU is there, and what the command says of what it cannot
do."""

from __future__ import annotations

import json
import shutil

import pytest

from tramplab.boot import module, plan, run, saved, trials
from tramplab.boot.probes import PROBES
from tramplab.cli import main
from tramplab.vmlinux.debian.fetch import content, there
from tramplab.vmlinux.debian.list import plain
from tramplab.vmlinux.open.image import open_image
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
        same = ("probe", "refused", "added", "handlers", "hits") if row["probe"] != "kprobe-event" else ("probe", "hits")
        assert {name: row.get(name) for name in same} == {name: of.get(name) for name in same}
    assert err.splitlines()[-1].startswith(f"{len(SOME)} of {len(SOME)}: ")


@bootable
def test_a_guard_stays_on_x86_64(image, capsys):
    assert main(["boot", str(image), "--trial", "guard-lost", "--json"]) == 0
    read = dict(json.loads(capsys.readouterr().out)[::-1])  # the first reading of each label
    assert read["plain"] < read["guarded"] == read["plain-left"] < read["guarded-and-plain"]
    assert read["calls-itself-after"][0] == 2


@bootable
def test_a_boot_that_is_given_up_keeps_what_there_is(image, capsys):
    """And one that the kernel's command line ends at once says so in one line."""
    assert main(["boot", str(image), "--probe", "ops", "--append", "init=/nothing rdinit=/nothing"]) == 2
    out, err = capsys.readouterr()
    assert not out and "does not boot to its end" in err and len(err.splitlines()) == 1


@bootable
def test_the_module_of_an_image(image):
    """Its handlers are counted by their instructions, each with its return."""
    opened = open_image(image)
    file = module.made(opened)
    assert set(module.handlers(opened.isa, file)) == set(module.HANDLERS)
    assert module.made(opened) == file and b"vermagic=6.12" in file
    assert f"#define OPS_SIZE {opened.struct('ftrace_ops').size}\n" in module.layout(opened)


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
    path.write_bytes(run._ELF + image.read_bytes()[4:])
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
        steps = trials.steps(machine, trial)
        assert "{" not in steps and f"module {plan.MODULE}\n" in steps and steps.count("say say ") > 0
        assert max(len(steps), len(text)) < 1 << 17  # MAX_PLAN of init/init.c
