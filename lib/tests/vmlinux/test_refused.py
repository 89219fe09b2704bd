"""Files that are no kernel image that can be opened: each has its sentence."""

import os
import struct
from pathlib import Path

import pytest

from support.vmlinux.containers import BODY, FLAT, MACHINES, PACKERS, RELOCATIONS, bzimage, elf, flat, zboot
from support.vmlinux.payloads import opened, refused, sentence

X86 = elf(MACHINES["x86_64"]) + RELOCATIONS
ARM = flat("arm64")


# -- headers that do not fit


def test_a_header_without_a_kernel_is_of_another_program(place):
    """memtest86+ has the header of a bzImage, for the boot loaders that know no other."""
    packed = PACKERS["gzip"](X86)
    for content in (bzimage(packed, length=0), zboot(packed, "gzip", length=0)):
        said = refused(place, content)
        assert said == "the header of FILE says that no kernel is in it: give a Linux kernel's vmlinuz, bzImage or Image."


@pytest.mark.parametrize("wrong", [{"length": 1 << 20}, {"length": 0xFFFFFFFF}])
def test_a_payload_outside_the_file_is_seen(wrong, place):
    packed = PACKERS["gzip"](X86)
    for content, start in (
        (bzimage(packed, **wrong), 3 * 512 + 96),
        (bzimage(packed, offset=1 << 30), 3 * 512 + (1 << 30)),
        (zboot(packed, "gzip", **wrong), 128),
        (zboot(packed, "gzip", start=0xFFFFFFFF), 0xFFFFFFFF),
    ):
        said = refused(place, content)
        assert said.startswith("the header of FILE says that ")
        assert said.endswith(f"kernel lie at {start}, but the file has {len(content)} bytes: get the whole file again.")


def test_a_file_that_ends_in_its_header_is_truncated(place):
    gone = "FILE is truncated within its header: get the whole file again."
    packed = PACKERS["gzip"](X86)
    assert refused(place, bzimage(packed)[:0x24F]) == gone and refused(place, bzimage(packed)[:0x206]) == gone
    assert refused(place, zboot(packed, "gzip")[:0x3F]) == gone and refused(place, zboot(packed, "gzip")[:8]) == gone


def test_a_file_that_ends_in_its_payload_is_too_short_for_it(place):
    for content in (bzimage(PACKERS["lz4"](X86)), zboot(PACKERS["lz4"](ARM), "lz4")):
        assert refused(place, content[:-100]).startswith("the header of FILE says that")


@pytest.mark.parametrize("kernel", [X86[: -len(RELOCATIONS)], ARM, flat("riscv64")], ids=["elf", "arm64", "riscv64"])
@pytest.mark.parametrize("pack", [bytes, PACKERS["gzip"]], ids=["raw", "gzip"])
def test_a_kernel_that_is_cut_short_is_truncated(kernel, pack, place):
    for length in (60, 63, 64, 70, 100, 130, 400, len(kernel) - 1):
        assert refused(place, pack(kernel[:length])).startswith("the kernel in FILE is truncated: ")


def test_a_segment_that_is_not_there_is_seen(place):
    content = bytearray(elf(62))
    struct.pack_into("<Q", content, 64 + 32, 1 << 63)
    assert "the kernel in FILE is truncated: 984 of 9223372036854775928 bytes are there" in refused(place, bytes(content))
    struct.pack_into("<I", content, 64, 4)  # PT_NOTE, which is not loaded
    assert opened(place, bytes(content)).data == content
    content = bytearray(elf(62))
    struct.pack_into("<H", content, 54, 32)
    assert "the segments of FILE are described in 32 bytes each, not in 56" in refused(place, bytes(content))


def test_an_old_boot_protocol_is_refused(place):
    said = refused(place, bzimage(PACKERS["gzip"](X86), version=0x207))
    assert said.startswith("the boot protocol of FILE is 2.07, which does not tell where the kernel lies: give the vmlinux, or")


# -- other machines


@pytest.mark.parametrize(
    ("machine", "name"),
    [(3, "32-bit x86"), (8, "MIPS"), (21, "PowerPC"), (22, "s390"), (40, "32-bit ARM"), (258, "LoongArch")],
)
def test_another_machine_is_named(machine, name, place):
    for order in ("little", "big"):
        said = refused(place, elf(machine, order=order))
        assert said == f"FILE is for {name}: give one for x86-64, arm64 or riscv64."


def test_an_unknown_machine_has_its_number(place):
    assert "FILE is for an unknown machine (e_machine 4711): give" in refused(place, elf(4711))


@pytest.mark.parametrize("isa", MACHINES)
def test_big_endian_and_32_bits_are_refused(isa, place):
    assert refused(place, elf(MACHINES[isa], order="big")) == f"FILE is a big-endian {isa} kernel: give a little-endian one."
    assert refused(place, elf(MACHINES[isa], bits=32)) == f"FILE is a 32-bit ELF file for {isa}: give a 64-bit kernel."


@pytest.mark.parametrize("isa", FLAT)
def test_a_big_endian_image_is_refused(isa, place):
    said = f"FILE is a big-endian {isa} kernel: give a little-endian one."
    assert refused(place, flat(isa, flags=1)) == said
    assert refused(place, zboot(PACKERS["gzip"](flat(isa, flags=1)), "gzip")) == said


def test_a_bzimage_for_32_bits_is_refused(place):
    said = refused(place, bzimage(PACKERS["gzip"](elf(3)), flags=0))
    assert said == "FILE is a 32-bit x86 kernel: give one for x86-64, arm64 or riscv64."


@pytest.mark.parametrize(
    ("at", "magic", "name"),
    [
        (0x24, struct.pack("<I", 0x016F2818), "32-bit ARM"),
        (0x24, struct.pack(">I", 0x016F2818), "32-bit ARM"),
        (0x38, struct.pack("<I", 0x818223CD), "LoongArch"),
        (0x10008, b"S390EP", "s390"),
    ],
)
def test_other_kernels_are_named(at, magic, name, place):
    content = bytes(at) + magic + bytes(99)
    said = f"FILE is a {name} kernel: give one for x86-64, arm64 or riscv64."
    assert refused(place, content) == said and refused(place, PACKERS["zstd"](content)) == said


# -- no kernels


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"0707010000", "an initrd (a cpio archive)"),
        (b"!<arch>\ndebian-binary   ", "a Debian package"),
        (b"\xed\xab\xee\xdb\x03", "an RPM package"),
        (b"\x27\x05\x19\x56" + bytes(26) + b"\4" + bytes(40), "a U-Boot image"),
        (b"\xd0\x0d\xfe\xed" + bytes(60), "a device tree or a FIT image"),
        (b"ANDROID!" + bytes(60), "an Android boot image"),
        (b"MZ" + bytes(600), "an EFI program without a section .linux"),
    ],
)
def test_what_is_no_kernel_is_named(content, what, place):
    for given in (content, PACKERS["gzip"](content), bzimage(PACKERS["gzip"](content))):
        said = refused(place, given)
        assert said.startswith(f"FILE is {what}, and no kernel: ") and said.count(":") == 1


@pytest.mark.parametrize("content", [b"a\n", b"#!/bin/sh\necho kernel\n" * 9, bytes(4096), PACKERS["gzip"](b""), BODY], ids=len)
def test_what_is_nothing_known_is_no_kernel(content, place):
    assert refused(place, content) == (
        "FILE is no kernel image: give a package's boot/vmlinuz-*, or your own build's vmlinux, bzImage or Image."
    )


# -- no files

ADVICE = "give a kernel image, such as a package's boot/vmlinuz-* or your own build's vmlinux."


def test_a_file_that_is_not_there(tmp_path, place):
    (tmp_path / "link").symlink_to(place)
    assert sentence(place) == f"there is no file FILE: {ADVICE}"
    assert sentence(tmp_path / "link") == f"there is no file FILE: {ADVICE}"


def test_a_directory(tmp_path):
    assert sentence(tmp_path) == "FILE is a directory: give the kernel image in it."


def test_an_empty_file(place):
    assert refused(place, b"") == "FILE is empty: get the file again."


def test_a_pipe_is_not_waited_for(place):
    os.mkfifo(place)
    assert sentence(place) == f"FILE is no regular file: {ADVICE}"


def test_a_name_that_no_file_can_have(tmp_path, place):
    place.write_bytes(ARM)
    assert sentence(place / "vmlinux") == f"cannot read FILE (Not a directory): {ADVICE}"
    assert sentence(tmp_path / ("x" * 300)) == f"cannot read FILE (File name too long): {ADVICE}"
    assert sentence(tmp_path / "\0").startswith("cannot read FILE (")


def test_a_file_that_may_not_be_read(place, monkeypatch):
    """As root, who runs the tests in some places, may read everything."""

    def forbid(*_):
        raise PermissionError(13, "Permission denied")

    place.write_bytes(ARM)
    monkeypatch.setattr(Path, "open", forbid)
    assert sentence(place) == "you may not read FILE: copy it as root to where you may, and give the copy."


def test_a_disk_that_fails(place, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    place.write_bytes(ARM)
    monkeypatch.setattr(Path, "open", fail)
    assert sentence(place) == f"cannot read FILE (Input/output error): {ADVICE}"


