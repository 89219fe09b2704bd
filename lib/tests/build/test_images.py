"""What is read from an image: damaged ones, and the layouts of structs."""

import random
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from support.complaints import complaint
from support.models.guests import ISAS, config, elf, every_isa
from tramplab import Kernel
from tramplab import isa as isas
from tramplab.base.errors import TramplabError
from tramplab.build import dwarf, toolchain, types
from tramplab.build.dwarf import asm_offsets
from tramplab.build.toolchain import GUEST, run_tool, source_files
from tramplab.lab import guest as image


def damaged(path: Path, data: bytes, isa: str) -> str:
    path.write_bytes(data)
    image.read.cache_clear()
    message = complaint(lambda: image.read(path, isas.get(isa)))
    assert str(path) in message and message.endswith(".")
    return message


@every_isa
def test_truncated_image(isa, tmp_path):
    """An image cut short anywhere is one line that names the file and what to do."""
    whole = elf(isa)
    for keep in (0, 1, 4, 63, 64, 1000, len(whole) // 2, len(whole) - 700, len(whole) - 1):
        assert "delete it" in damaged(tmp_path / "cut.elf", whole[:keep], isa)


@every_isa
def test_garbage_image(isa, tmp_path, request):
    """Whatever bytes are overwritten, reading either works or is one line that names the file: never another
    exception."""
    path, whole, rnd = tmp_path / "garbage.elf", elf(isa), random.Random(isa)
    request.getfixturevalue("empty")  # what is kept of garbage is for nobody else
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
    message = complaint(lambda: image.read(tmp_path / "gone.elf", isas.get("arm64")))
    assert str(tmp_path / "gone.elf") in message and message.endswith(".")


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
            + (f" && sizeof(((struct {s.name} *)0)->{n}) == {f.size}" if f.size else "")  # none: as many as there is room for
            + ', "");'
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
            f'#include "{GUEST / "consumers" / "fprobe_callbacks.c"}"',
            f'#include "{GUEST / "consumers" / "kprobe_callbacks.c"}"',
            f'#include "{GUEST / "consumers" / "kretprobe_callbacks.c"}"',
            f'#include "{GUEST / "include" / "trap.h"}"',
            f'#include "{GUEST / "include" / "sections.h"}"',
            f'#include "{GUEST / "core" / "ways.c"}"',
            f'#include "{GUEST / "consumers" / "returns.c"}"',
            f'#include "{GUEST / "consumers" / "shims.c"}"',
            f'#include "{GUEST / "core" / "bpf_multi.c"}"',
        ]
        (tmp_path / "layout.c").write_text("\n".join([*include, *checks, ""]), "utf-8")
        flags = [*toolchain._COMMON, *record.cflags, *(f"-D{d}=1" for d in cfg.defines)]
        flags += ["-I", str(GUEST / "include"), "-I", str(GUEST / record.name)]
        run_tool("clang", f"--target={record.triple}", *flags, "-c", "layout.c", "-o", "layout.o", cwd=tmp_path)
        header = asm_offsets(img.path).splitlines()
        defines = dict(line.split()[1:] for line in header if line.startswith("#define"))
        assert defines == {f"SIZEOF_{s.name}": str(s.size) for s in img.structs.values()} | {
            f"OFF_{s.name}_{n}": str(f.offset) for s in img.structs.values() for n, f in s.fields.items()
        }


@every_isa
def test_types_are_kept(isa, request, monkeypatch):
    """Read once, then the same from what was kept, also of an image with other code; made again if the debug info or the reader
    has changed; nothing kept, no harm."""
    image = ELFFile(BytesIO(elf(isa)))
    other_code, other_debug_info = (ELFFile(BytesIO(with_a_byte_of(isa, name))) for name in (".text.core", ".debug_info"))
    empty = request.getfixturevalue("empty")  # empty, but for what is read
    first = types.types(image)
    with monkeypatch.context() as m:
        m.setattr(dwarf, "types", lambda elf: pytest.fail("read again"))
        for same in (image, other_code):
            assert types.types(same) == first and len(first[0]) > 5 and first[1]["struct_arg"].parameters
        with pytest.raises(pytest.fail.Exception, match="read again"):
            types.types(other_debug_info)
    monkeypatch.setattr(types, "reader", lambda: b"another")
    assert types.types(image) == first and len(list(empty.glob("types-*"))) == 2
    (empty.parent / "file").touch()
    monkeypatch.setenv("TRAMPLAB_CACHE", str(empty.parent / "file" / "cache"))
    assert types.types(image) == first


def with_a_byte_of(isa: str, name: str) -> bytes:
    """The image with the last byte of a section changed."""
    whole = bytearray(elf(isa))
    section = ELFFile(BytesIO(bytes(whole))).get_section_by_name(name)
    whole[section["sh_offset"] + section["sh_size"] - 1] ^= 1
    return bytes(whole)


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
    wanted = {p for isa in ISAS for p in source_files(isas.get(isa))}
    wanted |= {*GUEST.parent.rglob("*.[ch]"), *(GUEST.parent / "native" / "child").iterdir()}
    assert wanted - covered == set()
