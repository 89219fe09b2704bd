"""Building guests: the cache, what happens when a build goes wrong, damaged images, and struct layouts."""

import dataclasses
import functools
import hashlib
import importlib.util
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tramplab import Kernel
from tramplab import isa as isas
from tramplab.build import dwarf, toolchain, types
from tramplab.build.dwarf import asm_offsets
from tramplab.build.toolchain import GUEST, GuestConfig, build, fingerprint, run_tool, source_files
from tramplab.cache import place, read
from tramplab.errors import TramplabError
from tramplab.ftrace import arch, releases
from tramplab.lab import guest as image

ISAS = ("x86_64", "arm64", "riscv64")
every_isa = pytest.mark.parametrize("isa", ISAS)


def config(isa: str, release: str = "v7.2") -> GuestConfig:
    record = isas.get(isa)
    return arch.of(record).config(releases.features(record, release, {}))


def make(isa: str, guest: Path = GUEST) -> Path:
    return build(isas.get(isa), config(isa), guest)


def name(isa: str) -> str:
    """What an image is kept under."""
    return f"{isa}-{fingerprint(isas.get(isa), config(isa))}.elf"


def elf(isa: str) -> bytes:
    """An image as it was linked, without the checksum."""
    make(isa)
    return read(name(isa))


def error(call) -> str:
    """The message of the TramplabError that a call raises: always one line."""
    with pytest.raises(TramplabError) as e:
        call()
    assert "\n" not in str(e.value)
    return str(e.value)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache of one's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TRAMPLAB_CACHE", str(folder))
    return folder


@pytest.fixture
def sources(tmp_path) -> Path:
    """A copy of the guest's sources that a test may spoil; its path has a space in it."""
    return Path(shutil.copytree(GUEST, tmp_path / "my sources" / "guest"))


def objects_in(folder: Path) -> list[Path]:
    """The compiled sources that a build keeps for others, whether or not it comes to its end."""
    return list(folder.glob("*-*.o"))


def left_in(folder: Path) -> list[str]:
    """What else is there."""
    return sorted({p.name for p in folder.iterdir()} - {p.name for p in objects_in(folder)}) if folder.exists() else []


# --- Content-addressed


@every_isa
def test_same_sources_give_the_same_bytes(isa, cache, sources, monkeypatch):
    """The same sources in another folder, built in another folder, give a file of the same name and content: nothing of
    either path is in it."""
    here = make(isa)
    assert left_in(cache) == [here.name] and here == place(name(isa))
    monkeypatch.setenv("TRAMPLAB_CACHE", str(cache / "elsewhere" / "and deeper"))
    there = make(isa, sources)
    assert there.parent != here.parent and there.name == here.name
    assert there.read_bytes() == here.read_bytes()
    for folder in (GUEST, sources, cache):
        assert str(folder).encode() not in here.read_bytes()


def test_a_cached_image_is_not_built_again(cache, monkeypatch):
    """The second build touches no tool; a lost cache entry is built again."""
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


def test_every_flag_changes_the_name(monkeypatch):
    """Defines, site flags, frame pointers, the ISA's flags and addresses, the common flags and the compiler all
    count."""
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
    monkeypatch.setattr(toolchain, "_COMMON", [*toolchain._COMMON, "-O3"])
    names.append(fingerprint(record, cfg))
    monkeypatch.setattr(toolchain, "version", lambda: "clang version 99")
    names.append(fingerprint(record, cfg))
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[0-9a-f]{24}", n) for n in names)


def test_releases_share_images_where_they_can(cache):
    """Two releases that differ in nothing that is compiled are one file; two that do are two."""
    assert config("arm64", "v6.12") == config("arm64", "v7.2")
    assert config("arm64", "v6.3") != config("arm64", "v6.4")
    Kernel("arm64", "v6.12"), Kernel("arm64", "v7.2")
    assert len([n for n in left_in(cache) if n.endswith(".elf")]) == 1
    Kernel("arm64", "v6.3")
    assert len([n for n in left_in(cache) if n.endswith(".elf")]) == 2


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


def test_what_another_process_cleared_away_meanwhile_is_no_trouble(cache):
    """A folder that is listed and gone when it is looked at, as a link to nowhere is."""
    cache.mkdir(parents=True, exist_ok=True)
    (cache / ".building-gone").symlink_to(cache / "nowhere")
    assert make("riscv64").is_file()


def test_a_cache_that_cannot_be_made_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(TramplabError) as e:
        make("riscv64")
    where = f"cannot keep files in {tmp_path}/file/cache (Not a directory)"
    assert str(e.value) == f"{where}: set TRAMPLAB_CACHE to a folder that can be written."


def test_two_builds_at_once(cache, tmp_path):
    """Two processes that are both in the middle of building the same image both succeed and leave one file."""
    ready, go = [tmp_path / "ready0", tmp_path / "ready1"], tmp_path / "go"
    both = [builder("riscv64", r, go) for r in ready]
    try:
        wait_for(*ready)
        assert [n for n in left_in(cache) if not n.startswith(".building-")] == []
        go.touch()
        results = [p.communicate(timeout=120) for p in both]
    finally:
        for p in both:
            p.kill()
    assert [(p.returncode, err) for p, (_, err) in zip(both, results, strict=True)] == [(0, ""), (0, "")]
    assert len({out for out, _ in results}) == 1
    assert left_in(cache) == [Path(results[0][0].strip()).name]
    assert make("riscv64").read_bytes() == (cache / left_in(cache)[0]).read_bytes()


def test_killed_build_leaves_no_image(cache, tmp_path):
    """A build killed before its last step leaves nothing under an image's name, and the next build is whole."""
    victim = builder("x86_64", tmp_path / "ready", tmp_path / "never")
    try:
        wait_for(tmp_path / "ready")
        os.kill(victim.pid, signal.SIGKILL)
        assert victim.wait(timeout=120) == -signal.SIGKILL
    finally:
        victim.kill()
        victim.communicate()
    assert [n for n in left_in(cache) if not n.startswith(".building-")] == []
    path = make("x86_64")
    assert image.read(path, isas.get("x86_64")).functions.keys() >= {"one_arg", "eight_args"}


def test_interrupted_build_leaves_nothing(cache, monkeypatch):
    """Ctrl-C at any step of a build, first tool to last, leaves nothing but whole objects; then a build gives the same image, from
    those and without them."""
    real, calls = toolchain.run_tool, []

    def counted(*arguments, stop_at, cwd=None):
        calls.append(arguments)
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        return real(*arguments, cwd=cwd)

    toolchain.version()  # asked for once in a process
    monkeypatch.setattr(toolchain, "_READ", {})
    monkeypatch.setattr(toolchain, "run_tool", functools.partial(counted, stop_at=0))
    steps = (make("arm64"), len(calls))[1]
    expected = hashlib.sha256((cache / left_in(cache)[0]).read_bytes()).digest()
    (cache / left_in(cache)[0]).unlink()
    for stop in (1, 2, steps // 2, steps - 1, steps):
        calls.clear()
        toolchain._READ.clear()
        for made in objects_in(cache):
            made.unlink()
        monkeypatch.setattr(toolchain, "run_tool", functools.partial(counted, stop_at=stop))
        with pytest.raises(KeyboardInterrupt):
            make("arm64")
        assert left_in(cache) == [], f"after step {stop} of {steps}"
    monkeypatch.setattr(toolchain, "run_tool", real)
    assert objects_in(cache) and hashlib.sha256(make("arm64").read_bytes()).digest() == expected


def compiled(monkeypatch) -> list[str]:
    """The names of the sources that are compiled from now on."""
    seen, real = [], toolchain.run_tool

    def run_tool(*arguments, **options):
        if "-c" in arguments:
            seen.append(Path(arguments[arguments.index("-c") + 1]).name)
        return real(*arguments, **options)

    monkeypatch.setattr(toolchain, "run_tool", run_tool)
    return seen


def test_only_what_has_changed_is_compiled_again(cache, sources, monkeypatch):
    """After a change of a source, a header, a flag or the compiler: what it reaches, wherever the sources lie, and nothing else;
    and the image is the one that an empty cache gives."""
    record, cfg = isas.get("riscv64"), config("riscv64")
    seen = compiled(monkeypatch)
    make("riscv64")
    every = [p.name for p in (*GUEST.glob("co*/*.c"), *(GUEST / "riscv64").glob("*.S"), GUEST / "functions.c")]
    assert sorted(seen) == sorted(every)
    for path, reached in (
        ("core/direct.c", {"direct.c"}),
        ("riscv64/args.inc", {p.name for p in (GUEST / "riscv64").glob("*.S") if '"args.inc"' in p.read_text("utf-8")}),
        ("include/lab.h", {name for name in every if name.endswith(".c")}),
    ):
        text = (sources / path).read_text("utf-8")
        (sources / path).write_text("\n" + text, "utf-8")
        seen.clear()
        image_ = make("riscv64", sources)
        assert set(seen) == reached and len(seen) == len(reached), path
        with monkeypatch.context() as m:
            m.setenv("TRAMPLAB_CACHE", str(cache / "empty" / Path(path).name))
            assert make("riscv64", sources).read_bytes() == image_.read_bytes()
        (sources / path).write_text(text, "utf-8")
    seen.clear()
    build(record, dataclasses.replace(cfg, site_flags=("-fpatchable-function-entry=8,4",)))
    assert seen == ["functions.c"]
    seen.clear()
    build(record, dataclasses.replace(cfg, defines=(*cfg.defines, "CONFIG_NOBODY_ASKS_FOR")))
    assert seen == []
    monkeypatch.setattr(toolchain, "version", lambda: "clang version 99")
    build(record, cfg)
    assert sorted(seen) == sorted(every)


def test_building_leaves_the_environment_alone(cache, monkeypatch):
    """Building a guest and the meter changes no environment variable of the process: what it starts later does not
    look for folders that are gone."""
    monkeypatch.delenv("ZIG_LOCAL_CACHE_DIR", raising=False)
    code = "import os; from tramplab import Kernel; e = set(os.environ); Kernel('arm64'); print(set(os.environ) ^ e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "set()\n", "")
    assert [n.split("-")[0] for n in left_in(cache)] == ["arm64", "meter", "types"]


# --- Sources that do not build

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
    message = error(lambda: make("arm64", sources))
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
    message = error(lambda: make("riscv64", sources))
    assert "missing_part" in message and message.endswith(".")
    assert left_in(cache) == []


def test_error_line_is_the_compilers_error(cache, sources):
    """A file whose name has "error" in it does not make a note about it the message."""
    (sources / "include" / "terrors.h").write_text("int fine;\nint wrong = undeclared;\n", "utf-8")
    path = sources / "functions.c"
    path.write_text('#include "terrors.h"\n' + path.read_text("utf-8"), "utf-8")
    message = error(lambda: make("x86_64", sources))
    assert "undeclared" in message and re.search(r"terrors\.h:2:", message), message


# --- No compiler


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
    message = error(lambda: Kernel("arm64"))
    assert "pip install ziglang" in message and message.endswith(".")
    assert left_in(cache) == []


def test_wheel_without_its_binary(cache, monkeypatch, forgotten, tmp_path):
    """A wheel that is there but has lost its binary is to be installed again; the message says which folder."""
    spec = ModuleSpec("ziglang", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    without_ziglang(monkeypatch, spec)
    message = error(lambda: Kernel("arm64"))
    assert str(tmp_path) in message and "pip install" in message and message.endswith(".")


# --- Damaged images


def damaged(path: Path, data: bytes, isa: str) -> str:
    path.write_bytes(data)
    image.read.cache_clear()
    message = error(lambda: image.read(path, isas.get(isa)))
    assert str(path) in message and message.endswith(".")
    return message


@every_isa
def test_truncated_image(isa, tmp_path):
    """An image cut short anywhere is one line that names the file and what to do."""
    whole = elf(isa)
    for keep in (0, 1, 4, 63, 64, 1000, len(whole) // 2, len(whole) - 700, len(whole) - 1):
        assert "delete it" in damaged(tmp_path / "cut.elf", whole[:keep], isa)


@every_isa
def test_garbage_image(isa, tmp_path, cache):
    """Whatever bytes are overwritten, reading either works or is one line that names the file: never another
    exception."""
    path, whole, rnd = tmp_path / "garbage.elf", elf(isa), random.Random(isa)
    refused = 0
    for n in range(30):
        data = bytearray(whole)
        # the file's header, the section headers at its end, and anywhere
        at = (rnd.randrange(64), len(data) - 1 - rnd.randrange(64 * 20), rnd.randrange(len(data)))[n % 3]
        size = min(rnd.choice((1, 8, 400)), len(data) - at)
        data[at : at + size] = rnd.randbytes(size)
        path.write_bytes(data)
        image.read.cache_clear()
        try:
            image.read(path, isas.get(isa))
        except TramplabError as e:
            assert str(path) in str(e) and "\n" not in str(e)
            refused += 1
    assert refused > 5
    damaged(path, rnd.randbytes(5000), isa)
    damaged(path, b"", isa)


def test_absent_image(tmp_path):
    """An image that is gone says so."""
    message = error(lambda: image.read(tmp_path / "gone.elf", isas.get("arm64")))
    assert str(tmp_path / "gone.elf") in message and message.endswith(".")


# --- Struct layouts

PT_REGS = {"x86_64": 168, "arm64": 336, "riscv64": 288}
FTRACE_REGS = [
    ("x86_64", "v5.17", 168),
    ("x86_64", "v7.2", 168),
    ("arm64", "v6.1", 336),
    ("arm64", "v6.2", 112),
    ("arm64", "v7.2", 112),
    ("riscv64", "v6.1", 288),
    ("riscv64", "v6.9", 288),
    ("riscv64", "v6.10", 112),
    ("riscv64", "v7.2", 112),
]


@pytest.mark.parametrize(("isa", "release", "size"), FTRACE_REGS, ids=[f"{i}-{r}" for i, r, _ in FTRACE_REGS])
def test_register_frames_have_the_kernels_sizes(isa, release, size):
    """pt_regs and ftrace_regs are as large as in the kernel of that ISA and release."""
    structs = Kernel(isa, release).image.structs
    assert structs["ftrace_regs"].size == size
    assert structs["pt_regs"].size == PT_REGS[isa]


@every_isa
def test_layouts_are_what_clang_says(isa, tmp_path):
    """Every size and offset read from the debug info, and every constant that the assembly gets, holds when clang
    itself is asked in a static assertion under the same flags."""
    record = isas.get(isa)
    for release in ("v6.1", "v7.2"):
        img, cfg = Kernel(isa, release).image, config(isa, release)
        checks = [f'_Static_assert(sizeof(struct {s.name}) == {s.size}, "");' for s in img.structs.values()]
        checks += [
            f"_Static_assert(__builtin_offsetof(struct {s.name}, {n}) == {f.offset}"
            f' && sizeof(((struct {s.name} *)0)->{n}) == {f.size}, "");'
            for s in img.structs.values()
            for n, f in s.fields.items()
        ]
        assert len(checks) > 40
        # structs that are defined in the sources of functions and callbacks, not in the header
        include = [
            f'#include "{GUEST / "include" / "lab.h"}"',
            f'#include "{GUEST / "functions.c"}"',
            f'#include "{GUEST / "consumers" / "callbacks.c"}"',
            f'#include "{GUEST / "consumers" / "bpf_callbacks.c"}"',
            f'#include "{GUEST / "include" / "trap.h"}"',
        ]
        (tmp_path / "layout.c").write_text("\n".join([*include, *checks, ""]), "utf-8")
        flags = [*toolchain._COMMON, *record.cflags, *(f"-D{d}=1" for d in cfg.defines), "-I", str(GUEST / "include")]
        run_tool("clang", f"--target={record.triple}", *flags, "-c", "layout.c", "-o", "layout.o", cwd=tmp_path)
        header = asm_offsets(img.path).splitlines()
        defines = dict(line.split()[1:] for line in header if line.startswith("#define"))
        assert defines == {f"SIZEOF_{s.name}": str(s.size) for s in img.structs.values()} | {
            f"OFF_{s.name}_{n}": str(f.offset) for s in img.structs.values() for n, f in s.fields.items()
        }


@every_isa
def test_types_are_kept(isa, cache, monkeypatch):
    """Read once, then the same from what was kept; made again if the reader has changed; nothing kept, no harm."""
    path = make(isa)
    first = types.types(path)
    with monkeypatch.context() as m:
        m.setattr(dwarf, "types", lambda elf: pytest.fail("read again"))
        assert types.types(path) == first and len(first[0]) > 5 and first[1]["struct_arg"].parameters
    monkeypatch.setattr(types, "_reader", lambda: b"another")
    assert types.types(path) == first and len(list(cache.glob("types-*"))) == 2
    (cache.parent / "file").touch()
    monkeypatch.setenv("TRAMPLAB_CACHE", str(cache.parent / "file" / "cache"))
    assert types.types(path) == first


def test_array_members(tmp_path):
    """An array's size is all of it, and its elements are counted, also through typedefs and several dimensions."""
    (tmp_path / "a.c").write_text(
        "typedef long word; struct inner { char c; word w[3]; };\n"
        "struct outer { struct inner in[2]; short grid[4][5]; void *p; volatile const word last; } o;\n",
        "utf-8",
    )
    run_tool("clang", "--target=aarch64-none-elf", "-g", "-gdwarf-4", "-c", "a.c", "-o", "a.o", cwd=tmp_path)
    run_tool("ld.lld", "-e", "0", "a.o", "-o", "a.elf", cwd=tmp_path)
    with (tmp_path / "a.elf").open("rb") as f:
        found, _ = dwarf.types(ELFFile(f))
    outer = {n: (f.offset, f.size, f.elements) for n, f in found["outer"].fields.items()}
    assert outer == {"in": (0, 64, 2), "grid": (64, 40, 20), "p": (104, 8, 0), "last": (112, 8, 0)}
    assert found["inner"].size == 32 and found["inner"].fields["w"].elements == 3


def test_every_guest_file_is_installed():
    """The package's data patterns cover every file of the guest, so that an installed package builds what a checkout
    does."""
    tomllib = pytest.importorskip("tomllib")
    project = GUEST.parent.parent / "pyproject.toml"
    if not project.is_file():
        pytest.skip("not a checkout")
    patterns = tomllib.loads(project.read_text("utf-8"))["tool"]["setuptools"]["package-data"]["tramplab"]
    covered = {p for pattern in patterns for p in GUEST.parent.glob(pattern)}
    wanted = {p for isa in ISAS for p in source_files(isas.get(isa))} | {toolchain.GUEST.parent / "emulate" / "meter.c"}
    wanted |= set((GUEST.parent / "native" / "child").iterdir())
    assert wanted - covered == set()
