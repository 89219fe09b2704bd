"""Building guests: what an image is kept under, and what is compiled again."""

import dataclasses
import re
import time
from pathlib import Path

import pytest

from support import proof
from support.base.remembering import remember
from support.models.guests import ISAS, config, every_isa, image_name, left_in, make
from tramplab import isa as isas
from tramplab.base.cache import place
from tramplab.build import toolchain
from tramplab.build.toolchain import GUEST, build, fingerprint, source_files

# --- Content-addressed


@proof
@every_isa
def test_same_sources_give_the_same_bytes(isa, empty, sources, monkeypatch):
    """The same sources in another folder, built in another folder, give a file of the same name and content: nothing of
    either path is in it."""
    here = make(isa)
    assert left_in(empty) == [here.name] and here == place(image_name(isa))
    monkeypatch.setenv("TRAMPLAB_CACHE", str(empty / "elsewhere" / "and deeper"))
    there = make(isa, sources)
    assert there.parent != here.parent and there.name == here.name
    assert there.read_bytes() == here.read_bytes()
    for folder in (GUEST, sources, empty):
        assert str(folder).encode() not in here.read_bytes()


def test_a_cached_image_is_not_built_again(compiled, monkeypatch):
    """The second build touches no tool; a lost cache entry is built again."""
    compiled("arm64")
    path = make("arm64")
    monkeypatch.setattr(toolchain, "run_tool", lambda *a, **k: pytest.fail("a tool was run"))
    assert make("arm64") == path
    path.unlink()
    with pytest.raises(pytest.fail.Exception):
        make("arm64")


@every_isa
def test_every_source_changes_the_name(isa, sources):
    """One more byte in any file that an ISA's guest is made of gives another name; other ISAs' files do not matter."""
    record, cfg = isas.get(isa), config(isa)
    original = fingerprint(record, cfg, sources)
    assert original == fingerprint(record, cfg)
    mine = set(source_files(record, sources))
    everything = {p for p in sources.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    others = {p for other in ISAS if other != isa for p in everything if other in p.parts}
    assert mine == everything - others, "a file of the guest is in nobody's fingerprint"
    names = {original}
    for p in sorted(everything):
        before = p.read_bytes()
        p.write_bytes(before + b"\n")
        name = fingerprint(record, cfg, sources)
        assert (name != original) == (p in mine), p
        names.add(name)
        p.write_bytes(before)
    assert len(names) == len(mine) + 1
    assert fingerprint(record, cfg, sources) == original
    (sources / "core" / "direct.c").rename(sources / "core" / "immediate.c")
    assert fingerprint(record, cfg, sources) != original


def test_a_change_of_the_packages_own_guest_is_seen_a_moment_later(sources, monkeypatch):
    """It is looked at ten times a second, others whenever they are asked for."""
    now = [1000.0]
    monkeypatch.setattr(toolchain, "GUEST", sources)
    monkeypatch.setattr(toolchain, "_last", {})
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    record, cfg = isas.get("arm64"), config("arm64")
    names = [fingerprint(record, cfg, sources)]
    (sources / "core" / "direct.c").write_text("// changed\n", "utf-8")
    for seconds in (0.05, 0.06):
        now[0] += seconds
        names.append(fingerprint(record, cfg, sources))
    assert names[0] == names[1] != names[2]


def test_every_flag_changes_the_name(monkeypatch):
    """Defines, site flags, frame pointers, the ISA's flags and addresses, the common flags, the linker's and the
    compiler all count."""
    record, cfg = isas.get("riscv64"), config("riscv64")
    names = [fingerprint(record, cfg)]
    for changed in (
        dataclasses.replace(cfg, defines=(*cfg.defines, "CONFIG_NEW")),
        dataclasses.replace(cfg, defines=cfg.defines[1:]),
        dataclasses.replace(cfg, site_flags=("-fpatchable-function-entry=8",)),
        dataclasses.replace(cfg, frame_pointer=not cfg.frame_pointer),
    ):
        names.append(fingerprint(record, changed))
    for name, value in (
        ("cflags", (*record.cflags, "-O1")),
        ("text_base", record.text_base + 4096),
        ("far_base", record.far_base + 4096),
    ):
        names.append(fingerprint(dataclasses.replace(record, **{name: value}), cfg))
    for name, more in (("_COMMON", "-O3"), ("_LEAVES", "-Wextra"), ("_GUEST_LINKED", "--relax")):
        monkeypatch.setattr(toolchain, name, (*getattr(toolchain, name), more))
        names.append(fingerprint(record, cfg))
    monkeypatch.setattr(toolchain, "version", lambda: "clang version 99")
    names.append(fingerprint(record, cfg))
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[0-9a-f]{24}", n) for n in names)


# --- Kept by parts


def asked(monkeypatch) -> list[str]:
    """The names of the sources that the compiler is asked for from now on."""
    seen, real = [], toolchain.run_tool

    def run_tool(*arguments, **options):
        if "-c" in arguments:
            seen.append(Path(arguments[arguments.index("-c") + 1]).name)
        return real(*arguments, **options)

    monkeypatch.setattr(toolchain, "run_tool", run_tool)
    return seen


def test_only_what_has_changed_is_compiled_again(empty, sources, monkeypatch):
    """After a change of a source, a header, a flag or the compiler: what it reaches, wherever the sources lie, and nothing else;
    and the image is the one that an empty cache gives."""
    record, cfg = isas.get("riscv64"), config("riscv64")
    remember(monkeypatch)
    seen = asked(monkeypatch)
    make("riscv64")
    every = [p.name for p in (*GUEST.glob("co*/*.c"), *(GUEST / "riscv64").glob("*.S"), GUEST / "functions.c")]
    assert sorted(seen) == sorted(every)
    for path, reached in (
        ("include/lab.h", {name for name in every if name.endswith(".c")}),
        ("core/direct.c", {"direct.c"}),
        ("riscv64/args.inc", {p.name for p in (GUEST / "riscv64").glob("*.S") if '"args.inc"' in p.read_text("utf-8")}),
    ):
        (sources / path).write_text("\n" + (sources / path).read_text("utf-8"), "utf-8")
        seen.clear()
        image_ = make("riscv64", sources)
        assert set(seen) == reached and len(seen) == len(reached), path
    with monkeypatch.context() as m:
        m.setenv("TRAMPLAB_CACHE", str(empty / "empty"))
        assert make("riscv64", sources).read_bytes() == image_.read_bytes()
    seen.clear()
    build(record, dataclasses.replace(cfg, site_flags=("-fpatchable-function-entry=8,4",)))
    assert seen == ["functions.c"]
    seen.clear()
    build(record, dataclasses.replace(cfg, defines=(*cfg.defines, "CONFIG_NOBODY_ASKS_FOR")))
    assert seen == []
    monkeypatch.setattr(toolchain, "version", lambda: "clang version 99")
    build(record, cfg)
    assert sorted(seen) == sorted(every)


def test_a_module_is_compiled_again_after_a_change_of_a_header(tmp_path):
    """Of one that its source includes, as of the layout."""
    (source := tmp_path / "one.c").write_text('#include "layout.h"\n#include "one.h"\nlong one = ONE + LAYOUT;\n', "utf-8")
    made = []
    for one, layout in ((1, 1), (2, 1), (2, 2)):
        (tmp_path / "one.h").write_text(f"#define ONE {one}\n", "utf-8")
        made.append(toolchain.module(isas.get("riscv64"), source, f"#define LAYOUT {layout}\n"))
    assert len(set(made)) == 3
