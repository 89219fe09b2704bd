"""Unified kernel images: the kernel is read where it lies, and the file stays as it was."""

import random

import pytest

from support.vmlinux.containers import FLAT, MACHINES, PACKERS, RELOCATIONS, bzimage, elf, flat, zboot
from support.vmlinux.payloads import opened, refused
from support.vmlinux.programs import efi
from tramplab.base.errors import TramplabError
from tramplab.vmlinux.open.unpacking.payload import bootable, unpack

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


@held
def test_what_a_boot_loader_starts_comes_out_of_every_container(what, place):
    """QEMU starts a bzImage and a flat Image, and of an EFI program or an EFI zboot image hangs."""
    isa, data, kernel, _ = HELD[what]
    for content in (data, PACKERS["gzip"](data), efi(isa, [*OTHER, (".linux", data)])):
        place.write_bytes(content)
        if what == "vmlinux":
            with pytest.raises(TramplabError, match="is an ELF file, which QEMU does not boot: give the bzImage or Image"):
                bootable(place)
        else:
            assert bootable(place) == (data if what == "bzImage" else kernel)


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
        (efi("x86_64", OTHER), "FILE is an EFI program without a section .linux, and no kernel: give the"),
        (efi("x86_64", [*OTHER, (".linux", b"")]), "the header of FILE says that no kernel is in it: give"),
        (efi("x86_64", [*OTHER, (".linux", b"x" * 99)]), "FILE is no kernel image: "),
        (efi("x86_64", OTHER)[:300], "FILE is truncated within its header: get the whole file again."),
    ],
    ids=range(4),
)
def test_without_a_kernel_in_it(content, said, place):
    assert refused(place, content).startswith(said)


def test_damage_makes_sentences(place):
    rng, content, kernels = random.Random("EFI program"), efi("arm64", [*OTHER, (".linux", ARM)]), 0
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
