"""Builds that go wrong: sources with mistakes, and no compiler."""

import importlib.util
import re
from pathlib import Path

import pytest

from support.complaints import complaint
from support.models.guests import left_in, make
from tramplab import Kernel
from tramplab.build import toolchain

BROKEN = [
    ("functions.c", "\nlong broken(void) { return undeclared; }\n", "undeclared"),
    ("arm64/ftrace_caller_args.S", "\n\tmvo x0, x1\n", "mnemonic"),
]


@pytest.mark.parametrize(("name", "addition", "says"), BROKEN, ids=[b[0] for b in BROKEN])
def test_compile_error_names_file_and_line(name, addition, says, empty, compiled, sources):
    """A mistake in a guest source is one line with the file, the line and the compiler's own words; the cache stays
    empty."""
    compiled("arm64")
    path = sources / name
    first = path.read_text("utf-8").count("\n") + 1
    path.write_text(path.read_text("utf-8") + addition, "utf-8")
    message = complaint(lambda: make("arm64", sources))
    found = re.search(r"(\S*/)?([\w/]+\.[chS]):(\d+):", message)
    assert found and found.group(0).split(":")[0].endswith(Path(name).name), message
    assert first <= int(found.group(3)) <= first + addition.count("\n")
    assert says in message and "does not build" in message
    assert message.endswith(".")
    assert left_in(empty) == []


def test_link_error_names_the_symbol(empty, compiled, sources):
    """A call to a function that nobody defines is one line with its name."""
    compiled("riscv64")
    extra = "void missing_part(void);\nvoid extra(void) { missing_part(); }\n"
    (sources / "core" / "extra.c").write_text(extra, "utf-8")
    message = complaint(lambda: make("riscv64", sources))
    assert "missing_part" in message and message.endswith(".")
    assert left_in(empty) == []


def test_error_line_is_the_compilers_error(compiled, sources):
    """A file whose name has "error" in it does not make a note about it the message."""
    compiled("x86_64")
    (sources / "include" / "terrors.h").write_text("int fine;\nint wrong = undeclared;\n", "utf-8")
    path = sources / "functions.c"
    path.write_text('#include "terrors.h"\n' + path.read_text("utf-8"), "utf-8")
    message = complaint(lambda: make("x86_64", sources))
    assert "undeclared" in message and re.search(r"terrors\.h:2:", message), message


@pytest.fixture
def forgotten():
    """The compiler is looked for anew, before and after."""
    caches = (toolchain.zig, toolchain.version)
    for c in caches:
        c.cache_clear()
    yield
    for c in caches:
        c.cache_clear()


def test_missing_wheel_says_what_to_install(empty, monkeypatch, forgotten):
    """Without the compiler wheel there is one line that names it and the command, and nothing is left behind."""
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "ziglang" else real(name, *a))
    message = complaint(lambda: Kernel("arm64"))
    assert "pip install ziglang" in message and message.endswith(".")
    assert left_in(empty) == []


def tool(monkeypatch, path: Path, text: str, mode: int = 0o755) -> None:
    """A compiler that is a script."""
    path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(mode)
    monkeypatch.setattr(toolchain, "zig", lambda: str(path))


def test_a_tool_that_is_ended_says_by_what_and_what_may_be_the_cause(monkeypatch, tmp_path):
    """A linker writes its output through memory, where a full disk is a signal; its own complaint is better, if it has one."""
    full, short = ", as where a disk is full: set TRAMPLAB_CACHE to a folder that has room", ", as where memory is short: "
    for number, why in {"BUS": full, "XFSZ": full, "KILL": f"{short}run the same command again", "SEGV": ""}.items():
        for says, message in (("", f"it was ended by SIG{number}{why}"), ("echo 'ld.lld: error: no.' >&2;", "ld.lld: error: no")):
            tool(monkeypatch, tmp_path / "zig", f"{says} echo Stack dump: >&2; kill -{number} $$")
            assert complaint(lambda: toolchain.run_tool("ld.lld", "x")) == f"the guest does not build (ld.lld): {message}."
    tool(monkeypatch, tmp_path / "zig", "exit 3")
    assert complaint(lambda: toolchain.run_tool("ld.lld")) == "the guest does not build (ld.lld): no message."


def test_a_compiler_that_does_not_start_is_one_sentence(monkeypatch, tmp_path):
    tool(monkeypatch, tmp_path / "zig", "exit 0", 0o644)
    message = complaint(lambda: toolchain.run_tool("clang"))
    assert message == f"the compiler does not start ({tmp_path / 'zig'}: Permission denied)."
