"""Small kernels opened whole: flat images and ELF files."""

import itertools
import struct

import pytest

from support.complaints import complaint
from support.vmlinux.containers import flat
from support.vmlinux.kernels import (
    APART,
    BASES,
    LAYOUTS,
    POINTERS,
    Part,
    changed,
    content,
    image,
    many,
    pointed,
    rela,
    symtab,
    types,
    vmlinux,
)
from support.vmlinux.small_kernels import ARM, LOADED, NUMBER, OPS, RISCV, X86, arm64_elf, listed, memory, opened, refused, x86
from tramplab.build.dwarf import Prototype, Value

# Flat images


@pytest.mark.parametrize("layout", ["v6.12: base", "v7.2: own places", "v6.1.16: base, early, three bytes of index"])
@pytest.mark.parametrize(("isa", "kind"), [("arm64", "RELA"), ("arm64", "RELR"), ("riscv64", "RELA"), ("riscv64", "none")])
def test_a_flat_image(isa, kind, layout, place):
    base = BASES[isa]
    kernel = opened(place, image(isa, kind, LAYOUTS[layout]))
    assert kernel.isa.name == isa and kernel.version == "6.12.7-small" and kernel.release == "v6.12"
    assert kernel.text == (base + 4096, base + 4096 + 16 * (NUMBER - 2))
    assert {name: s.address for name, s in kernel.image.symbols.items()} == {name[1:]: a for name, a in many(base)}
    assert kernel.image.symbols["function_number_7_of_ftrace_"].size == 16
    assert kernel.struct("ftrace_ops") == OPS and kernel.types.has("ftrace_ops", "grid")
    assert kernel.prototype("bpf_fentry_test1") == Prototype("bpf_fentry_test1", (Value(4),), Value(4))
    assert kernel.facts[0] == f"linked at {base:#x}, relocations: {kind}" and "1100 symbols" in kernel.facts[1]
    assert kernel.image.origin.symbols == "kallsyms" and kernel.image.origin.types == "BTF"


@pytest.mark.parametrize("base", [ARM, 0xFFFFC00080000000, ARM + 5 * (2 << 20)])
@pytest.mark.parametrize("kind", ["RELA", "RELR"])
def test_the_pointers_of_a_flat_image_are_in_place(kind, base, place):
    made = content(base, head=flat("arm64", b""))
    made.add(bytes(POINTERS * APART), 4096)
    pointers = pointed(made)
    kernel = opened(place, image("arm64", kind, base=base))
    assert [int.from_bytes(memory(kernel, at, 8), "little") for at in pointers] == list(pointers.values())


def test_a_flat_image_in_segments(place):
    """Its text, in whole pages, is executable, and nothing else is; behind all lies as much as the header says."""
    data = image("riscv64")
    kernel = opened(place, changed(data, 16, "<Q", 0x100000))
    first, last = kernel.text
    assert [(s.address, s.address + s.size, s.executable, s.writable) for s in kernel.image.segments] == [
        (RISCV, first, False, True),
        (first, last + 4095 & -4096, True, False),
        (last + 4095 & -4096, RISCV + 0x100000, False, True),
    ]
    assert b"".join(s.data for s in kernel.image.segments) == changed(data, 16, "<Q", 0x100000)
    assert kernel.image.code == ((first, last + 4095 & -4096, "core"),)


def test_a_flat_image_that_cannot_be_moved_tells_its_address_by_its_symbols(place):
    """CONFIG_RELOCATABLE=n; up to v5.7 with an offset in the header."""
    assert opened(place, image("arm64", base=ARM)).text[0] == ARM + 4096
    assert opened(place, image("arm64", base=ARM + (6 << 20))).text[0] == ARM + (6 << 20) + 4096
    moved = opened(place, changed(image("arm64", base=ARM + 0x80000), 8, "<Q", 0x80000))
    assert moved.image.segments[0].address == ARM + 0x80000 and moved.text[0] == ARM + 0x80000 + 4096
    old = opened(place, image("riscv64", base=0xFFFFFFE000000000))  # where it was linked up to v5.12
    assert old.image.segments[0].address == 0xFFFFFFE000000000


def test_a_flat_image_that_does_not_tell_its_address(place):
    said = refused(place, image("arm64", layout=LAYOUTS["v7.2: own places"]))
    assert said == "FILE does not tell the address that it was linked for: give the vmlinux of its build."
    assert refused(place, changed(image("arm64", base=(1 << 64) - (2 << 20)), 16, "<Q", 4 << 20)) == said
    data = bytearray(image("arm64", "RELA"))
    table = data.index(struct.pack("<Q", 1027)) - 8
    for n in range(3 * POINTERS):
        struct.pack_into("<Q", data, table + 24 * n, ARM + (n << 30))
    assert refused(place, bytes(data)) == said


def test_what_was_unpacked_is_let_go(place):
    """A kernel that is open holds what is loaded, once."""
    data = image("arm64", "RELR")
    kernel = opened(place, data)
    assert kernel.payload.data == b"" and kernel.payload.packed == "Image" and kernel.payload.path == place
    assert sum(len(s.data) for s in kernel.image.segments) == len(data)


# ELF files


@pytest.mark.parametrize("sections", [True, False])
def test_a_stripped_elf_file(sections, place):
    kernel = opened(place, x86(sections=sections))
    assert kernel.isa.name == "x86_64" and kernel.release == "v6.12"
    assert kernel.text == (X86 + 4096, X86 + 4096 + 16 * (NUMBER - 2))
    assert kernel.address("current_task") == 0x40 and kernel.address("_text") == X86
    assert kernel.struct("ftrace_ops") == OPS
    assert kernel.facts == ("kallsyms: 1104 symbols, distances from a base, per-CPU symbols as they are",)


@pytest.mark.parametrize("physical", [True, False])
def test_per_cpu_data_lies_where_it_is_loaded(physical, place):
    """Its segment has the address zero; a symbol says where it is loaded, also where a tool has lost the physical addresses."""
    kernel = opened(place, x86(physical=physical))
    at = next(s for s in kernel.image.segments if s.data[:8] == b"percpu!!").address
    assert at % 4096 == 0 and at > kernel.text[1] and all(s.address >> 63 for s in kernel.image.segments)
    data = next(s for s in kernel.image.segments if s.data[:4] == b"data")
    assert (data.address, data.size) == (at + 4096, 400 + 0x5000) and memory(kernel, data.address + 396, 8) == b"data\0\0\0\0"
    spans = sorted((s.address, s.address + s.size) for s in kernel.image.segments)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def test_an_elf_file_with_a_table_of_symbols(place):
    made = content(X86)
    kernel = opened(place, vmlinux("x86_64", [(X86, LOADED, bytes(made.data), 0)], [*listed(X86), Part(".BTF", types().built())]))
    symbols = kernel.image.symbols
    assert {name: s.address for name, s in symbols.items()} == {name[1:]: a for name, a in many(X86)}  # the first _text
    assert kernel.facts == (f".symtab: {NUMBER + 4} symbols",) and kernel.image.origin.symbols == ".symtab"
    sizes = [symbols[f"function_number_{n}_of_ftrace_"].size for n in range(6)]
    assert sizes == [16, 9, 16, 16, 11, 16]  # $x and .L are in one; in front of a function is none of the one before
    assert symbols["_text"].size == 8 and symbols["_etext"].size == 0


def test_every_function_has_its_name(place):
    """Two static ones are called the same, and a section ends where the second begins."""
    known = many(X86)
    one, other = known[3][1], known[4][1]
    known[3:5] = [("tsame", one), ("tsame", other), ("T__lock_text_end", other)]
    kernel = opened(place, vmlinux("x86_64", [(X86, LOADED, bytes(content(X86, known=known).data), 0)]))
    assert [kernel.image.where(at) for at in (one, other, other + 5)] == ["same", "same", "same+0x5"]
    assert kernel.address("same") == one and kernel.address("__lock_text_end") == other


def test_the_end_of_the_text_may_be_aligned_past_its_segment(place):
    """LLD ends a segment with its last byte and aligns the symbol further; what lies behind has a segment of its own."""
    made, end = content(X86), X86 + 4096 + 16 * (NUMBER - 2)
    here, behind = (X86, LOADED, bytes(made.data[: end - X86 - 100]), 0), (end, LOADED, bytes(made.data[end - X86 :]), 0)
    more = [*listed(X86), Part(".BTF", types().built())]
    assert opened(place, vmlinux("x86_64", [here, behind], more)).text == (X86 + 4096, end - 100)
    between = (end - 50, LOADED, bytes(50), 0)
    assert "has nothing where its symbols say" in refused(place, vmlinux("x86_64", [here, between, behind], more))


def test_what_is_not_in_the_table_of_symbols(place):
    kernel = opened(place, x86())
    assert kernel.has("_text") and not kernel.has("_texd")
    said = complaint(lambda: kernel.address("function_number_7_of_ftrace")).replace(str(place), "FILE")
    assert said.startswith("FILE has no symbol 'function_number_7_of_ftrace' (did you mean function_number_7_of_ftrace_")
    assert len(said) < 300


def test_the_pointers_of_an_elf_file_are_in_place(place):
    """As flat images do, a vmlinux has zero for them where it can be moved; x86's has them."""
    data, pointers = arm64_elf([])
    kernel = opened(place, data)
    assert [int.from_bytes(memory(kernel, at, 8), "little") for at in pointers] == list(pointers.values())
    assert memory(kernel, ARM + 4096, 8) == bytes(range(1, 9))
    beside, _ = arm64_elf([Part(".rela.dyn", rela(pointers, 1027), 4, 0)], relocations=False)  # as vmlinux-to-elf puts it
    assert memory(opened(place, beside), next(iter(pointers)), 8) == pointers[next(iter(pointers))].to_bytes(8, "little")
    lost, _ = arm64_elf([], relocations=False)
    assert memory(opened(place, lost), next(iter(pointers)), 8) == bytes(8)


@pytest.mark.parametrize(("isa", "kind"), [("arm64", "RELA"), ("arm64", "RELR"), ("riscv64", "RELA")])
def test_the_pointers_of_an_elf_file_without_section_headers_are_in_place(isa, kind, place):
    """Their list lies in what is loaded, as in a flat image."""
    data, base = image(isa, kind), BASES[isa]
    kernel = opened(place, vmlinux(isa, [(base, 0, data, 4096)]))
    flat_one = opened(place, data)
    assert b"".join(s.data for s in kernel.image.segments) == b"".join(s.data for s in flat_one.image.segments)
    assert kernel.image.symbols == flat_one.image.symbols


def test_an_elf_file_that_has_lost_its_relocations(place):
    made = content(RISCV)
    table = [("__rela_dyn_start", RISCV, 0, 0, 1), ("__rela_dyn_end", RISCV + 24, 0, 0, 1)]
    lost = symtab([*((name[1:], a, 0, 2, 1) for name, a in many(RISCV)), *table])
    said = refused(place, vmlinux("riscv64", [(RISCV, 0, bytes(made.data), 0)], lost))
    assert said == "FILE has lost its relocations (.rela.dyn) when it was built: give the Image of its build."
