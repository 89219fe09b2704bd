"""The second opinion: what llvm-mca is given, what it says, and one sentence where it says nothing."""

from __future__ import annotations

import shutil

import pytest

from support.models import handmade
from tramplab.estimate import cores, mca
from tramplab.lab.call import RecordedCall
from tramplab.lab.measure import run

installed = pytest.mark.skipif(shutil.which(mca.PROGRAM) is None, reason="llvm-mca is not installed")
#: In LLVM since release 14 or longer.
OLD = ("cortex-a72", "apple-m1", "sifive-u74", "skylake", "zen3")


def test_the_block_is_the_straight_part():
    """No branch of any kind, no landing pad, everything else in order."""
    pad = ".byte 0xf3, 0x0f, 0x1e, 0xfa"  # endbr64, which the assembler does not know
    text = f"{pad}\n call f\n add rax, 1\n jmp g\n f: mov rcx, [rsp + 8]\n ret\n g: cmp rax, 1\n je h\n h: ret"
    assert mca.block(handmade.call("x86_64", text)).splitlines() == [
        ".intel_syntax noprefix",
        "nop",
        "mov rcx, qword ptr [rsp + 8]",
        "add rax, 1",
        "cmp rax, 1",
    ]


@pytest.mark.parametrize(
    ("isa", "text", "expected"),
    [
        ("arm64", "adrp x9, f\n f: ret", "mov x9, #1"),
        ("riscv64", "auipc a0, 1\n ret", "lui a0, 1"),
    ],
)
def test_addresses_are_any_constant(isa, text, expected):
    assert mca.block(handmade.call(isa, text)) == expected + "\n"


@installed
@pytest.mark.parametrize("name", OLD)
def test_opinions(name):
    """It knows the cores of its release and reads what every hook runs; more instructions take longer."""
    core = cores.get(name)
    unhooked, direct, both = (run(core.isa, h) for h in ("none", "direct", "direct+ops"))
    assert mca.opinion(unhooked, unhooked, core) == mca.Opinion(0.0)
    one, two = (mca.opinion(r, unhooked, core) for r in (direct, both))
    assert one.reason == two.reason == "" and 0 < one.cycles < two.cycles


@installed
def test_known_sequences():
    """Dependent multiplications of three cycles each."""
    few, many = (handmade.call("x86_64", "imul rax, rax\n" * n + "ret") for n in (5, 15))
    assert mca.opinion(many, few, cores.get("skylake")).cycles == pytest.approx(30, abs=0.2)


def test_not_installed(monkeypatch):
    monkeypatch.setenv("PATH", "")
    call = RecordedCall.of(run("x86_64", "none"))
    assert mca.opinion(call, call, cores.get("zen3")) == mca.Opinion(
        None, "llvm-mca is not installed (on Debian: apt-get install llvm)."
    )


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo \"'znver3' is not a recognized processor for this target\" >&2", "does not know znver3"),
        ("echo 'error: invalid operand' >&2; exit 1", "cannot read the code of this call (error: invalid operand)"),
        ("echo nothing of use", "cannot read"),
    ],
)
def test_it_fails(monkeypatch, tmp_path, script, words):
    program = tmp_path / mca.PROGRAM
    program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    call = RecordedCall.of(run("x86_64", "ops"))
    found = mca.opinion(call, call, cores.get("zen3"))
    assert found.cycles is None and words in found.reason


def test_a_core_it_has_no_name_for(monkeypatch):
    monkeypatch.setattr(mca.shutil, "which", lambda _: "/bin/false")
    call = RecordedCall.of(run("riscv64", "ops"))
    assert "no name for spacemit-x60" in mca.opinion(call, call, cores.get("spacemit-x60")).reason
