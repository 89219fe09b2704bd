"""A sentence for each kernel image that is damaged, lies, or lacks what is needed; and random damage."""

import random
import re
import struct
import time
import tracemalloc
from pathlib import Path

import pytest

from support.base.damage import DAMAGES
from support.vmlinux.containers import PACKERS, flat
from support.vmlinux.kernels import BANNER, FUNC, LAYOUTS, Part, changed, content, image, kallsyms, many, symtab, types, vmlinux
from support.vmlinux.programs import program
from support.vmlinux.small_kernels import ARM, LOADED, OPS, RISCV, X86, arm64_elf, listed, opened, refused, section, x86
from tramplab.base.errors import TramplabError
from tramplab.vmlinux.open import image as image_module
from tramplab.vmlinux.open import kallsyms as kallsyms_reader
from tramplab.vmlinux.open.debuginfo import btf
from tramplab.vmlinux.open.image import open_image
from tramplab.vmlinux.open.unpacking import decompress


def without(data: bytes, what: bytes) -> bytes:
    assert what in data
    return data.replace(what, bytes(b ^ 0x55 for b in what))


def nameless(isa: str, base: int, drop: str) -> bytes:
    """A flat image without one of its symbols."""
    made = content(base, head=flat(isa, b""))
    whole = kallsyms(many(base), LAYOUTS["v6.12: base"], base)
    at = made.data.index(whole[:64])
    known = [(name.replace(drop, "_other"), a) for name, a in many(base)]
    return flat(isa, bytes(made.data[len(flat(isa, b"")) : at]) + kallsyms(known, LAYOUTS["v6.12: base"], base + at))


def test_a_kernel_without_symbols(place):
    said = (
        "FILE has no table of symbols (kallsyms), or none that is whole: give the vmlinux of its build, or a kernel with "
        "CONFIG_KALLSYMS=y."
    )
    for data in (image("arm64", "RELR"), x86()):
        assert refused(place, without(data, b"0\0001\0002\0003\0004\000")) == said


def test_a_kernel_without_types(place):
    said = (
        "FILE has neither BTF nor DWARF, so the layout of its structs is unknown: give a kernel with CONFIG_DEBUG_INFO_BTF=y, or "
        "the vmlinux of its build with debug info."
    )
    for data in (image("arm64", "RELR"), x86(sections=False)):
        assert refused(place, without(data, b"\x9f\xeb\1\0")) == said
    assert "the BTF in FILE is garbled" in refused(place, without(x86(), b"\x9f\xeb\1\0"))


def test_a_kernel_without_a_version(place):
    said = "FILE holds no Linux kernel: its version is nowhere in it: give a vmlinuz, an Image or a vmlinux."
    for data in (image("arm64", "RELR"), x86()):
        assert refused(place, without(data, BANNER[:13])) == said


@pytest.mark.parametrize("name", ["_stext", "_etext"])
def test_a_kernel_that_does_not_tell_its_text(name, place):
    said = refused(place, nameless("riscv64", RISCV, name))
    assert said == f"FILE has no symbol {name}, so where its text lies is unknown: give the vmlinux of its build."


def test_a_kernel_whose_symbols_lie_elsewhere(place):
    made = content(X86)
    for base in (X86 - (1 << 20), X86 + (1 << 20)):
        said = refused(place, vmlinux("x86_64", [(X86, LOADED, bytes(made.data), 0)], listed(base)))
        assert said == f"FILE has nothing where its symbols say that its text is ({base + 4096:#x}): get the whole file again."


def test_an_elf_file_that_is_no_kernel(place):
    said = "FILE is an ELF file, but nothing of it lies where kernels do: give the vmlinux or bzImage of a build."
    assert refused(place, vmlinux("x86_64", [(0x400000, 0x400000, bytes(5000), 0)])) == said
    assert refused(place, vmlinux("arm64", [], [Part(".text", bytes(100))])) == said
    assert refused(place, program("x86_64", [(".text", b"\xc3" * 100), (".rodata", BANNER)])) == said


def large(data: bytes, at: int) -> bytes:
    return changed(data, at, "<Q", (1 << 30) + 1)


def test_sizes_that_no_kernel_has(place):
    said = "FILE says that it takes 1073741825 bytes of memory, which is no kernel's size: get the whole file again."
    assert refused(place, large(image("riscv64"), 16)) == said
    assert refused(place, large(image("arm64", "RELR"), 16)) == said
    one = vmlinux("x86_64", [(X86, LOADED, bytes(content(X86).data), 0)])
    assert refused(place, large(one, 64 + 40)) == said


def segment(n: int, field: int) -> int:
    """Where a field of a segment's header lies."""
    return 64 + 56 * n + field


HEADERS = {
    "a segment's bytes beyond the end": (segment(0, 8), "<Q", 1 << 40),
    "a segment of more bytes than there are": (segment(0, 32), "<Q", 1 << 40),
    "a segment of more bytes than memory": (segment(0, 40), "<Q", 16),
    "a segment at the end of all addresses": (segment(2, 16), "<Q", (1 << 64) - 4096),
    "segments upon each other": (segment(2, 16), "<Q", X86 + 4096),
    "segments of another length": (54, "<H", 55),
    "more segments than there are": (56, "<H", 0xFFFF),
    "a table of segments beyond the end": (32, "<Q", 1 << 40),
    "a table of sections beyond the end": (40, "<Q", 1 << 40),
    "sections of another length": (58, "<H", 63),
    "more sections than there are": (60, "<H", 0xFFFF),
}


@pytest.mark.parametrize("lie", HEADERS)
def test_a_header_of_an_elf_file_that_lies(lie, place):
    at, form, value = HEADERS[lie]
    said = refused(place, changed(x86(), at, form, value))
    assert re.search("get the (whole )?file again", said) and ("damaged" in said or "truncated" in said or "described" in said)


SECTIONS = {
    "bytes beyond the end": (24, "<Q", 1 << 40),
    "more bytes than there are": (32, "<Q", 1 << 40),
    "more bytes than can be": (32, "<Q", (1 << 64) - 1),
}


@pytest.mark.parametrize("lie", SECTIONS)
@pytest.mark.parametrize("name", [".BTF", ".shstrtab"])
def test_a_section_that_lies(name, lie, place):
    at, form, value = SECTIONS[lie]
    data = x86()
    said = refused(place, changed(data, section(data, name)[0] + at, form, value))
    assert said == "FILE is damaged, a section of it goes on beyond its end: get the whole file again."


def test_sections_without_names_are_none(place):
    """Their names are in a section that is not there; what else the file has is found all the same."""
    for number in (0, 99, 0xFFFF):
        kernel = opened(place, changed(x86(), 62, "<H", number))
        assert kernel.struct("ftrace_ops") == OPS


def test_symbols_that_lie(place):
    """A name beyond the names; a table that is not in the file, of which kallsyms then takes the place."""
    made = content(X86)
    data = vmlinux("x86_64", [(X86, LOADED, bytes(made.data), 0)], listed(X86))
    header, start, _ = section(data, ".symtab")
    said = refused(place, changed(data, start + 24 * 9, "<I", 1 << 31))
    assert said == "FILE is damaged, the name of a symbol lies beyond the names: get the whole file again."
    assert opened(place, changed(data, header + 4, "<I", 8)).image.origin.symbols == "kallsyms"
    assert opened(place, changed(data, header + 32, "<Q", 24)).image.origin.symbols == "kallsyms"
    assert opened(place, changed(data, start + 24 * 9 + 8, "<QQ", (1 << 64) - 1, (1 << 64) - 1)).text[0] == X86 + 4096


KERNELS = {
    "arm64, RELA": lambda: image("arm64", "RELA"),
    "arm64, RELR": lambda: image("arm64", "RELR", LAYOUTS["v7.2: own places"]),
    "riscv64": lambda: image("riscv64"),
    "x86_64": x86,
    "x86_64, .symtab": lambda: vmlinux("x86_64", [(X86, LOADED, bytes(content(X86).data), 0)], listed(X86)),
    "arm64, ELF": lambda: arm64_elf([*listed(ARM)])[0],
}
every_kernel = pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)


def tried(place: Path, data: bytes) -> bool:
    """Is it opened? If not, there is one sentence with the file's name."""
    place.write_bytes(data)
    try:
        kernel = open_image(place)
        assert kernel.text[0] < kernel.text[1] and sum(s.size for s in kernel.image.segments) <= 1 << 30
        kernel.types.has("ftrace_ops", "b")
    except TramplabError as e:
        assert str(place) in str(e) and "\n" not in str(e) and str(e).endswith(".") and ". " not in str(e)
        return False
    return True


@every_kernel
def test_a_kernel_cut_anywhere(make, place):
    """Where all that is needed is still there it is opened, and if not, there is a sentence."""
    data = make()
    step = len(data) // 40
    opens = [tried(place, data[:end]) for end in [*range(1, len(data), step), *range(len(data) - 8, len(data))]]
    assert not any(opens[:20])


@every_kernel
def test_a_kernel_garbled_anywhere(make, place):
    rng, data, other, opens = random.Random(6), make(), x86(), 0
    for n in range(60):
        how = list(DAMAGES.values())[n % len(DAMAGES)]
        damaged = how(data, other, rng)
        if n % 3 == 0:  # in its headers
            at = rng.randrange(4, 64 + 56 * 3)
            damaged = changed(data, at, "<B", rng.randrange(256))
        opens += tried(place, damaged)
    assert 5 < opens < 60


LONG = b"x" * 60_000


def symbols_that_share(names: bytes, offsets: list[int]) -> list[Part]:
    """A table of symbols, and section names, by these offsets into names."""
    rows = b"".join(struct.pack("<IBBHQQ", at, 2, 0, 1, X86 + 4096, 16) for at in offsets)
    return [Part(".symtab", rows, 2), Part(".strtab", names, 3)]


def types_that_share() -> bytes:
    """BTF whose functions' names are the ends of one name."""
    t = types()
    t.function("f" + LONG.decode(), 0, [])
    last = t.data[-12:]
    first = int.from_bytes(last[:4], "little")
    return_of = int.from_bytes(last[8:], "little")
    for n in range(20_000):
        t.data += struct.pack("<III", first + n, FUNC << 24 | 1, return_of)
    return t.built()


SHARING = {
    "one long name for all symbols": symbols_that_share(b"\0" + LONG + b"\0", [1] * 20_000),
    "names that are the ends of one": symbols_that_share(b"\0" + LONG + b"\0", list(range(1, 20_001))),
    "names of the greatest length": symbols_that_share(b"\0" + (b"y" * 511 + b"\0") * 2, [1] * 20_000),
    "one long name for all sections": [Part("." + "z" * 60_000, b"") for _ in range(3000)],
    "types with the ends of one name": [Part(".BTF", types_that_share())],
}


@pytest.mark.parametrize("lie", SHARING)
def test_names_that_share_a_string_take_no_more_memory_than_the_file(lie, place):
    """630 kB of names of 60 kB took 1.2 GB."""
    data = vmlinux("x86_64", [(X86, LOADED, bytes(content(X86).data), 0)], SHARING[lie])
    place.write_bytes(data)
    tracemalloc.start()
    try:
        tried(place, data)
        assert tracemalloc.get_traced_memory()[1] < 20 * len(data)
    finally:
        tracemalloc.stop()


def test_a_symbol_whose_name_is_too_long_is_left_out(place):
    """As scripts/kallsyms.c leaves it out (KSYM_NAME_LEN)."""
    known = [(name[1:], a, 0, 2, 1) for name, a in many(X86)]
    data = vmlinux("x86_64", [(X86, LOADED, bytes(content(X86).data), 0)], symtab([*known, *((n, X86, 0, 2, 1) for n in NAMES)]))
    assert [n for n in NAMES if opened(place, data).has(n)] == NAMES[:1]


NAMES = ["a" * 511, "b" * 512]


def test_a_machine_without_memory(place, monkeypatch):
    """Whatever takes it: unpacking, symbols or types."""
    said = "there is not enough memory to open FILE: end other programs, or open it on a larger machine."

    def fail(*_):
        raise MemoryError

    for where, name in ((decompress, "unpacked"), (kallsyms_reader, "read"), (btf, "find"), (image_module, "_sized")):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, fail)
            assert refused(place, PACKERS["gzip"](image("arm64", "RELR"))) == said


def test_no_lie_takes_much_memory_or_time(place):
    """As much as the file has, a few times over, and not as much as it says that it has."""
    tracemalloc.start()
    start = time.process_time()
    sizes = [changed(x86(), segment(n, 40), "<Q", size) for n in (0, 2) for size in (0x3FFFFFFF, 1 << 29)]
    for lie in (large(image("riscv64"), 16), changed(image("riscv64"), 16, "<Q", 1 << 30), *sizes):
        tried(place, lie)
    assert tracemalloc.get_traced_memory()[1] < 50 << 20 and time.process_time() - start < 5
    tracemalloc.stop()
