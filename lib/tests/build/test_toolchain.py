"""Building guests: what an image is kept under, what is compiled again, and two builds at once."""

import dataclasses
import functools
import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from support import proof
from support.base.remembering import remember
from support.models.guests import ISAS, config, every_isa, image_name, left_in, make, objects_in, parts_in
from tramplab import Kernel
from tramplab import isa as isas
from tramplab.base.cache import place
from tramplab.base.errors import TramplabError
from tramplab.build import toolchain
from tramplab.build.toolchain import GUEST, build, fingerprint, source_files
from tramplab.lab import guest as image

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


def test_file_names_change_the_name(sources):
    """A renamed or added source changes the name as its content would."""
    record, cfg = isas.get("arm64"), config("arm64")
    original = fingerprint(record, cfg, sources)
    (sources / "core" / "direct.c").rename(sources / "core" / "immediate.c")
    renamed = fingerprint(record, cfg, sources)
    (sources / "arm64" / "empty.S").write_text("", "utf-8")
    assert len({original, renamed, fingerprint(record, cfg, sources)}) == 3


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


def test_releases_share_images_where_they_can(empty, compiled):
    """Two releases that differ in nothing that is compiled are one file; two that do are two."""
    compiled("arm64", "v6.12"), compiled("arm64", "v6.3")
    assert config("arm64", "v6.12") == config("arm64", "v6.13")
    assert config("arm64", "v6.3") != config("arm64", "v6.4")
    Kernel("arm64", "v6.12"), Kernel("arm64", "v6.13")
    assert len([n for n in left_in(empty) if n.endswith(".elf")]) == 1
    Kernel("arm64", "v6.3")
    assert len([n for n in left_in(empty) if n.endswith(".elf")]) == 2


# --- Two at once, interrupted

BUILD = """
import sys, time
from pathlib import Path
from tramplab import isa as isas
from tramplab.build import toolchain
from tramplab.ftrace import arch, releases
record = isas.get(sys.argv[1])
config = arch.of(record).config(releases.features(record, "v7.2", {}))
me, real = Path(sys.argv[2]), toolchain.run_tool
def run_tool(*arguments, cwd=None):
    if arguments[-1] == "lab.elf":  # the last step: everything but the image is there
        me.touch()
        while not Path(sys.argv[3]).exists():
            time.sleep(0.005)
    return real(*arguments, cwd=cwd)
toolchain.run_tool = run_tool
print(toolchain.build(record, config))
"""


def builder(isa: str, ready: Path, go: Path) -> subprocess.Popen:
    """Another process that builds an image, but waits before its last step until the file `go` exists."""
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, isa, ready, go], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )


def wait_for(*paths: Path) -> None:
    end = time.monotonic() + 120
    while not all(p.exists() for p in paths):
        assert time.monotonic() < end, "the other process did not get that far"
        time.sleep(0.005)


def test_what_another_process_cleared_away_meanwhile_is_no_trouble(empty, compiled):
    """A folder that is listed and gone when it is looked at, as a link to nowhere is."""
    compiled("riscv64", few=True)
    (empty / ".building-gone").symlink_to(empty / "nowhere")
    assert make("riscv64").is_file()


def test_a_cache_that_cannot_be_made_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(TramplabError) as e:
        make("riscv64")
    where = f"cannot keep files in {tmp_path}/file/cache (Not a directory)"
    assert str(e.value) == f"{where}: set TRAMPLAB_CACHE to a folder that can be written."


def test_two_builds_at_once(empty, compiled, tmp_path):
    """Two processes that are both in the middle of building the same image both succeed and leave one file."""
    compiled("riscv64", few=True)
    ready, go = [tmp_path / "ready0", tmp_path / "ready1"], tmp_path / "go"
    both = [builder("riscv64", r, go) for r in ready]
    try:
        wait_for(*ready)
        assert [n for n in left_in(empty) if not n.startswith(".building-")] == []
        go.touch()
        results = [p.communicate(timeout=120) for p in both]
    finally:
        for p in both:
            p.kill()
    assert [(p.returncode, err) for p, (_, err) in zip(both, results, strict=True)] == [(0, ""), (0, "")]
    assert len({out for out, _ in results}) == 1
    assert left_in(empty) == [Path(results[0][0].strip()).name]
    assert make("riscv64").read_bytes() == (empty / left_in(empty)[0]).read_bytes()


def test_killed_build_leaves_no_image(empty, compiled, tmp_path):
    """A build killed before its last step leaves nothing under an image's name, and the next build is whole."""
    compiled("x86_64", few=True)
    victim = builder("x86_64", tmp_path / "ready", tmp_path / "never")
    try:
        wait_for(tmp_path / "ready")
        os.kill(victim.pid, signal.SIGKILL)
        assert victim.wait(timeout=120) == -signal.SIGKILL
    finally:
        victim.kill()
        victim.communicate()
    assert [n for n in left_in(empty) if not n.startswith(".building-")] == []
    path = make("x86_64")
    assert image.read(path, isas.get("x86_64")).functions.keys() >= {"one_arg", "eight_args"}


def test_interrupted_build_leaves_nothing(empty, monkeypatch):
    """Ctrl-C at any step of a build, first tool to last, leaves nothing but whole objects; then a build gives the same image, from
    those and without them."""
    toolchain.version()  # asked for once in a process
    real, calls = toolchain.run_tool, []
    remember(monkeypatch)

    def counted(*arguments, stop_at, tool=toolchain.run_tool, cwd=None):
        calls.append(arguments)
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        return tool(*arguments, cwd=cwd)

    monkeypatch.setattr(toolchain, "run_tool", functools.partial(counted, stop_at=0))
    steps = (make("arm64"), len(calls))[1]
    expected = hashlib.sha256((empty / left_in(empty)[0]).read_bytes()).digest()
    (empty / left_in(empty)[0]).unlink()
    for stop in (1, 2, steps // 2, steps - 1, steps):
        calls.clear()
        for made in parts_in(empty):
            made.unlink()
        monkeypatch.setattr(toolchain, "run_tool", functools.partial(counted, stop_at=stop))
        with pytest.raises(KeyboardInterrupt):
            make("arm64")
        assert left_in(empty) == [], f"after step {stop} of {steps}"
    monkeypatch.setattr(toolchain, "run_tool", real)
    assert objects_in(empty) and hashlib.sha256(make("arm64").read_bytes()).digest() == expected


def test_an_interrupted_tool_is_gone(tmp_path, monkeypatch):
    """Not only sent away: what still writes in the folder of a build would keep it from being removed."""
    tool = tmp_path / "zig"
    tool.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/is\nmv {tmp_path}/is {tmp_path}/pid\nexec sleep 60\n", "utf-8")
    tool.chmod(0o755)
    monkeypatch.setattr(toolchain, "zig", lambda: str(tool))

    def interrupt():
        wait_for(tmp_path / "pid")
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    hand = threading.Thread(target=interrupt)
    hand.start()
    with pytest.raises(KeyboardInterrupt):
        toolchain.run_tool("clang")
    hand.join()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text("utf-8")), 0)


def test_a_tool_that_is_interrupted_while_it_starts_is_gone(tmp_path, monkeypatch):
    """As long as nobody knows its process, nobody could end it."""
    started: list[subprocess.Popen] = []

    class Slow(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(toolchain, "zig", lambda: "sleep")
    monkeypatch.setattr(toolchain.subprocess, "Popen", Slow)
    usual = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        toolchain.run_tool("60")
    assert started[0].returncode == -signal.SIGKILL and signal.getsignal(signal.SIGINT) is usual


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


def test_building_leaves_the_environment_alone(empty, compiled, monkeypatch):
    """Building a guest and the meter changes no environment variable of the process: what it starts later does not
    look for folders that are gone."""
    compiled("arm64", few=True)
    monkeypatch.delenv("ZIG_LOCAL_CACHE_DIR", raising=False)
    code = "import os; from tramplab import Kernel; e = set(os.environ); Kernel('arm64'); print(set(os.environ) ^ e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "set()\n", "")
    assert [n.split("-")[0] for n in left_in(empty)] == ["arm64", "meter", "types"]
