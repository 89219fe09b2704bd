"""Booting under QEMU: what is said where it does not work, and what comes of a boot that ends early."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

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


@pytest.fixture
def lines(monkeypatch, tmp_path):
    """The lines of a boot under a QEMU that says what a script says; without a script under none."""

    def of(isa, script, **more):
        if script:
            fake(tmp_path, isa, script)
        monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin" if script else str(tmp_path))
        return qemu.lines(ISAS[isa], "vmlinuz", b"", {}, **more)

    return of


def test_no_qemu_is_said(lines):
    with pytest.raises(TramplabError, match="qemu-system-aarch64 is not there, so no kernel of arm64 is booted: install QEMU"):
        list(lines("arm64", ""))


def test_boot_that_does_not_end_is_said(lines):
    """With the last lines of its console, and what QEMU itself complains of; the lines before have been given."""
    seen = []
    says = r"vmlinuz does not boot to its end under qemu-system-riscv64; .*: begin / first / second / no memory"
    script = "echo begin; echo first; echo second; echo no memory >&2"
    with pytest.raises(TramplabError, match=says):
        seen += lines("riscv64", script)
    assert seen == ["first", "second"]
    some = lines("riscv64", script)
    assert [next(some), next(some)] == ["first", "second"]
    some.close()


def test_reason_of_a_panic_is_said_before_the_trace_that_follows(lines):
    script = "echo '[ 1.0] CFI failure at do_one_initcall'; echo Kernel panic - not syncing: no init; seq -f 'x%g: 0' 30"
    says = "CFI failure at do_one_initcall / Kernel panic - not syncing: no init / x26: 0 / x27: 0 / x28: 0 / x29: 0 / x30: 0$"
    with pytest.raises(TramplabError, match=says):
        list(lines("arm64", script))


def test_boot_that_takes_too_long_is_given_up(lines):
    with pytest.raises(TramplabError, match=r"has not come to its end in 1 seconds under qemu-system-x86_64; .*: begin"):
        list(lines("x86_64", "echo begin; exec sleep 60", seconds=1))


def test_what_firmware_says_is_left_out(lines):
    assert list(lines("arm64", "echo firmware; echo end; echo begin; echo one; echo end; echo Power down")) == ["one"]


def test_kernel_that_does_not_power_off_ends_with_its_process(lines):
    assert list(lines("arm64", "echo begin; echo end; exec sleep 60")) == []


@pytest.mark.parametrize("begin", ["", "echo begin;"])
def test_line_without_an_end_is_given_up(lines, begin):
    """Before it takes the memory that there is."""
    with pytest.raises(TramplabError, match="vmlinuz writes a line of more than 65536 bytes to its console: boot it with fewer"):
        list(lines("arm64", f"{begin} exec yes '' | tr '\\n' x"))


def test_junk_is_quoted_without_control_characters(lines):
    with pytest.raises(TramplabError, match=r"is: \?\[0m\?x+$") as raised:
        list(lines("arm64", r"printf '\033[0m\001'; printf 'x%.0s' $(seq 1000); echo"))
    assert len(str(raised.value)) < 400


_BOOT = """
import sys
from tramplab.base.streams import unwound
from tramplab.boot import qemu
from tramplab.isa import ISAS
with unwound():
    for line in qemu.lines(ISAS["arm64"], "vmlinuz", b"", {}):
        print(line, flush=True)
"""


def runs(process):
    """Is there such a process, which has not ended?"""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text("utf-8")
    except OSError:
        return False


@pytest.mark.skipif(not shutil.which("setpriv"), reason="util-linux, whose setpriv has the kernel end QEMU, is not there")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_qemu_ends_with_its_parent(monkeypatch, tmp_path, number):
    """However that ends; and where it can still do something, its files go, too."""
    fake(tmp_path, "arm64", "echo begin; echo $$; exec sleep 600")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", _BOOT], stdout=subprocess.PIPE, encoding="utf-8") as parent:
        child = int(parent.stdout.readline())
        assert runs(child)
        parent.send_signal(number)
        parent.wait(120)
    for _ in range(1200):
        if not runs(child):
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail("QEMU goes on")
    assert number == signal.SIGKILL or not list(tmp_path.glob("tramplab-boot-*"))


def test_words_are_added_to_the_command_line():
    line = qemu.command_line(ISAS["x86_64"], " a=1  b")
    assert line.startswith("console=ttyS0 nokaslr ") and line.endswith(" a=1 b")
