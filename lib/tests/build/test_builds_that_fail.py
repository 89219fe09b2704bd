"""Builds that go wrong: sources with mistakes, and no compiler."""

import importlib.util
import re
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from support.complaints import complaint
from support.guests import left_in, make
from tramplab import Kernel
from tramplab.build import toolchain

BROKEN = [
    ("functions.c", "\nlong broken(void) { return undeclared; }\n", "undeclared"),
    ("include/lab.h", "\nlong 3;\n", "expected"),
    ("core/ftrace.c", "\nstatic int unused(void) { return 0; }\n", "unused"),
    ("arm64/ftrace_caller_args.S", "\n\tmvo x0, x1\n", "mnemonic"),
]


@pytest.mark.parametrize(("name", "addition", "says"), BROKEN, ids=[b[0] for b in BROKEN])
def test_compile_error_names_file_and_line(name, addition, says, cache, sources):
    """A mistake in a guest source is one line with the file, the line and the compiler's own words; the cache stays
    empty."""
    path = sources / name
    first = path.read_text("utf-8").count("\n") + 1
    path.write_text(path.read_text("utf-8") + addition, "utf-8")
    message = complaint(lambda: make("arm64", sources))
    found = re.search(r"(\S*/)?([\w/]+\.[chS]):(\d+):", message)
    assert found and found.group(0).split(":")[0].endswith(Path(name).name), message
    assert first <= int(found.group(3)) <= first + addition.count("\n")
    assert says in message and "does not build" in message
    assert message.endswith(".")
    assert left_in(cache) == []


def test_link_error_names_the_symbol(cache, sources):
    """A call to a function that nobody defines is one line with its name."""
    extra = "void missing_part(void);\nvoid extra(void) { missing_part(); }\n"
    (sources / "core" / "extra.c").write_text(extra, "utf-8")
    message = complaint(lambda: make("riscv64", sources))
    assert "missing_part" in message and message.endswith(".")
    assert left_in(cache) == []


def test_error_line_is_the_compilers_error(cache, sources):
    """A file whose name has "error" in it does not make a note about it the message."""
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


def without_ziglang(monkeypatch, instead: ModuleSpec | None) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: instead if name == "ziglang" else real(name, *a))


def test_missing_wheel_says_what_to_install(cache, monkeypatch, forgotten):
    """Without the compiler wheel there is one line that names it and the command, and nothing is left behind."""
    without_ziglang(monkeypatch, None)
    message = complaint(lambda: Kernel("arm64"))
    assert "pip install ziglang" in message and message.endswith(".")
    assert left_in(cache) == []


def test_wheel_without_its_binary(cache, monkeypatch, forgotten, tmp_path):
    """A wheel that is there but has lost its binary is to be installed again; the message says which folder."""
    spec = ModuleSpec("ziglang", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    without_ziglang(monkeypatch, spec)
    message = complaint(lambda: Kernel("arm64"))
    assert str(tmp_path) in message and "pip install" in message and message.endswith(".")
