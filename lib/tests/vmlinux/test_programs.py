"""Kernels in files that are no kernel themselves: they are read where they lie, and the file stays as it was."""

import random

import pytest

from support.containers import FLAT, MACHINES, PACKERS, RELOCATIONS, bzimage, elf, flat, zboot
from support.kernels import BANNER, vmlinux
from support.payloads import opened, refused
from support.programs import android, efi, legacy, program, tree
from support.small_kernels import refused as refused_image
from tramplab.base.errors import TramplabError
from tramplab.vmlinux.open.payload import unpack

X86 = elf(MACHINES["x86_64"]) + RELOCATIONS
ARM = flat("arm64")
#: What a program may hold: (ISA, its bytes, the kernel in them, what the reader is told).
HELD = {
    "bzImage": ("x86_64", bzimage(PACKERS["zstd"](X86)), X86, "bzImage, zstd"),
    "Image of arm64": ("arm64", ARM, ARM, "Image"),
    "Image of riscv64": ("riscv64", flat("riscv64"), flat("riscv64"), "Image"),
    "zboot": ("arm64", zboot(PACKERS["gzip"](ARM), "gzip"), ARM, "EFI zboot, gzip"),
    "packed Image": ("arm64", PACKERS["lz4"](ARM), ARM, "Image, lz4"),
    "vmlinux": ("x86_64", X86, X86, "ELF"),
}
held = pytest.mark.parametrize("what", HELD)
#: Those that are known by their own headers, wherever they lie.
KNOWN = [name for name in HELD if name not in ("packed Image", "vmlinux")]
OTHER = [(".text", b"\xc3" * 700), (".osrel", b"ID=debian\n"), (".cmdline", b"quiet")]


def whole(place, content: bytes, isa: str, kernel: bytes, said: str) -> None:
    """The kernel comes out, and the file is as it was."""
    found = opened(place, content)
    assert found.data == kernel and found.isa.name == isa and found.packed == said
    assert place.read_bytes() == content


@held
def test_a_unified_kernel_image(what, place):
    isa, data, kernel, said = HELD[what]
    content = efi(isa, [*OTHER, (".linux", data), (".initrd", PACKERS["gzip"](b"0707"))])
    whole(place, content, isa, kernel, f"{said}, EFI program")
    whole(place, PACKERS["xz"](content), isa, kernel, f"{said}, EFI program, xz")


@pytest.mark.parametrize("what", KNOWN)
def test_another_program_of_efi_with_a_kernel_in_it(what, place):
    isa, data, kernel, said = HELD[what]
    found = opened(place, efi(isa, [*OTHER, (".payload", data)], padding=1))
    assert found.data == kernel and found.packed == f"{said}, EFI program"


@held
@pytest.mark.parametrize("section", [".linux", ".rodata..compressed", ".gzdata"])
def test_an_elf_file_with_a_section_for_a_kernel(section, what, place):
    """Such as arch/x86/boot/compressed/vmlinux, of which a bzImage is made."""
    isa, data, kernel, said = HELD[what]
    whole(place, program(isa, [*OTHER, (section, data)]), isa, kernel, f"{said}, ELF file")


@pytest.mark.parametrize("sections", [True, False])
@pytest.mark.parametrize("what", KNOWN)
def test_a_library_with_a_kernel_in_its_data(what, sections, place):
    """Such as libkrunfw.so: it is found by its own header, also without section headers."""
    isa, data, kernel, said = HELD[what]
    parts = [(".text", b"\xc3" * 700), (".data", b"HdrS ARM\x64 RSC\x05" + bytes(4096) + data)]
    content = program(isa, parts) if sections else vmlinux(isa, [(0x10000, 0, part, 0) for _, part in parts])
    found = opened(place, content)
    assert found.data[: len(kernel)] == kernel and found.packed == f"{said}, ELF file"


@pytest.mark.parametrize("version", range(5))
@held
def test_an_android_boot_image(what, version, place):
    isa, data, kernel, said = HELD[what]
    whole(place, android(data, version), isa, kernel, f"{said}, Android boot image")


@pytest.mark.parametrize("several", [False, True])
@held
def test_a_legacy_image_of_u_boot(what, several, place):
    isa, data, kernel, said = HELD[what]
    whole(place, legacy(data, several), isa, kernel, f"{said}, U-Boot image")


@pytest.mark.parametrize("external", ["", "offset", "position"])
@held
def test_a_fit_image(what, external, place):
    isa, data, kernel, said = HELD[what]
    nodes = [("fdt-1", "flat_dt", b"tree"), ("kernel-1", "kernel", data), ("kernel-2", "kernel", b"another")]
    whole(place, tree(nodes, external), isa, kernel, f"{said}, FIT image")


def test_containers_in_containers_have_an_end(place):
    content = ARM
    for _ in range(8):
        content = PACKERS["gzip"](content)
    assert opened(place, content).data == ARM
    assert refused(place, PACKERS["gzip"](content)).startswith("FILE is no kernel image: ")


# -- without a kernel


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (efi("x86_64", OTHER), "FILE is an EFI program without a known kernel header or a section .linux, and no kernel: give the"),
        (efi("x86_64", [*OTHER, (".linux", b"")]), "the header of FILE says that 0 bytes of kernel lie at"),
        (efi("x86_64", [*OTHER, (".linux", b"x" * 99)]), "FILE is no kernel image: "),
        (efi("x86_64", OTHER)[:300], "FILE is truncated within its header: get the whole file again."),
        (android(ARM, 0)[:3000], "the header of FILE says that "),
        (android(b"", 3), "the header of FILE says that 0 bytes of kernel lie at 4096"),
        (legacy(b"0707"), "FILE is an initrd (a cpio archive), and no kernel: "),
        (legacy(ARM)[:40], "the header of FILE says that "),
        (tree([("fdt-1", "flat_dt", b"tree")]), "FILE is a device tree, and no kernel: "),
        (tree([("kernel-1", "kernel", ARM)])[:200], "FILE is a device tree, and no kernel: "),
        (tree([("kernel-1", "kernel", ARM)], "offset")[:-900], "the header of FILE says that "),
    ],
    ids=range(11),
)
def test_without_a_kernel_in_it(content, said, place):
    assert refused(place, content).startswith(said)


def test_a_program_that_is_no_kernel(place):
    content = program("x86_64", [(".text", b"\xc3" * 100)])
    said = "FILE is an ELF file, but no kernel: nothing of it lies where kernels do: give a vmlinux."
    assert refused_image(place, content) == said


def test_user_mode_linux(place):
    """It has a kernel's version, and what it is in words (arch/um/kernel/um_arch.c)."""
    data = BANNER + b"User Mode Linux v%s\n\tavailable at http://user-mode-linux.sourceforge.net/\n\n\0"
    for content in (program("x86_64", [(".rodata", data)], 0x60000000), vmlinux("x86_64", [(0x60000000, 0, data, 0)])):
        assert refused_image(place, content) == (
            "FILE is user-mode Linux, a kernel that runs as a program and has no patch sites of x86_64's kernels: there is "
            "no lab for it, give a vmlinux that boots."
        )


def test_a_program_with_a_kernel_that_has_no_header(place):
    """Such as libkrunfw.so for x86-64, which holds what a vmlinux is loaded as."""
    assert refused_image(place, program("x86_64", [(".data", BANNER)])) == (
        "FILE is an ELF file with a kernel in it that has no header of its own: give the vmlinux or Image that it was made of."
    )


MADE = {
    "EFI program": efi("arm64", [*OTHER, (".linux", ARM)]),
    "ELF file": program("arm64", [*OTHER, (".linux", ARM)]),
    "library": program("arm64", [(".data", bytes(4096) + ARM)]),
    "Android": android(ARM, 2),
    "U-Boot": legacy(ARM, True),
    "FIT": tree([("fdt-1", "flat_dt", b"tree"), ("kernel-1", "kernel", ARM)]),
    "FIT, offset": tree([("kernel-1", "kernel", ARM)], "offset"),
}


@pytest.mark.parametrize("name", MADE)
def test_damage_makes_sentences(name, place):
    rng, content, kernels = random.Random(name), MADE[name], 0
    for turn in range(300):
        damaged = bytearray(content[: rng.randrange(1, len(content))] if turn % 5 == 0 else content)
        for _ in range(rng.choice((1, 4))):
            at = rng.randrange(min(len(damaged), rng.choice((64, 600, len(damaged)))))
            damaged[at : at + 4] = rng.choice((bytes(4), b"\xff" * 4, b"\0\0\0\x80", rng.randbytes(4)))
        place.write_bytes(damaged)
        try:
            kernels += unpack(place).data[56:60] in FLAT.values()
        except TramplabError as e:
            said = str(e)
            assert str(place) in said and "\n" not in said and said.endswith("."), said
    assert 60 < kernels < 300
