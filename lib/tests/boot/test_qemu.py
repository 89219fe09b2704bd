"""Booting under QEMU: what is said where it does not work, and what comes of a boot that ends early."""

from __future__ import annotations

import pytest

from tramplab.base.errors import TramplabError
from tramplab.boot import qemu
from tramplab.build import toolchain
from tramplab.isa import ISAS

_USER_SPACE = 0x10000000


def fake(folder, isa, script):
    """A QEMU that says what the script says."""
    program = folder / qemu.MACHINES[isa].program
    program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    program.chmod(0o755)


@pytest.mark.parametrize("isa", ISAS)
def test_first_process_builds(isa):
    assert toolchain.program(ISAS[isa].in_user_space, qemu.INIT, _USER_SPACE).read_bytes()[:4] == b"\x7fELF"


def test_no_qemu_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TramplabError, match="qemu-system-aarch64 is not there, so no kernel of arm64 is booted: install QEMU"):
        list(qemu.lines(ISAS["arm64"], tmp_path / "image", {}))


def test_boot_that_does_not_end_is_said(monkeypatch, tmp_path):
    """With the last lines of its console, and what QEMU itself complains of; the lines before have been given."""
    fake(tmp_path, "riscv64", "echo begin; echo first; echo Kernel panic; echo no memory >&2")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    seen = []
    says = r"does not boot to its end under qemu-system-riscv64; .*first / Kernel panic / no memory"
    with pytest.raises(TramplabError, match=says):
        seen += qemu.lines(ISAS["riscv64"], tmp_path / "image", {})
    assert seen == ["begin", "first", "Kernel panic"]
    lines = qemu.lines(ISAS["riscv64"], tmp_path / "image", {})
    assert [next(lines), next(lines)] == ["begin", "first"]
    lines.close()


def test_boot_that_takes_too_long_is_given_up(monkeypatch, tmp_path):
    fake(tmp_path, "x86_64", "echo begin; exec sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(TramplabError, match=r"has not come to its end in 1 seconds under qemu-system-x86_64; .*: begin"):
        list(qemu.lines(ISAS["x86_64"], tmp_path / "image", {}, seconds=1))


def test_what_firmware_says_is_left_out(monkeypatch, tmp_path):
    fake(tmp_path, "arm64", "echo firmware; echo begin; echo one; echo end; echo Power down")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert list(qemu.lines(ISAS["arm64"], tmp_path / "image", {})) == ["begin", "one"]


def test_words_are_added_to_the_command_line():
    line = qemu.command_line(ISAS["x86_64"], " a=1  b")
    assert line.startswith("console=ttyS0 nokaslr ") and line.endswith(" a=1 b")
