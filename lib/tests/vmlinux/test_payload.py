"""Opening kernel images: every container with every compression, a sentence for each that cannot be opened, and random damage."""

import hashlib
import os
import random
import struct
import tracemalloc
from pathlib import Path

import pytest

from support.complaints import complaint
from support.containers import (
    BODY,
    CHECKED,
    FLAT,
    MACHINES,
    PACKERS,
    RELOCATIONS,
    bzimage,
    elf,
    every,
    flat,
    lz4_frame,
    lz4_legacy,
    with_size,
    zboot,
)
from support.damage import DAMAGES
from tramplab.errors import TramplabError
from tramplab.vmlinux import packing
from tramplab.vmlinux.payload import Payload, unpack

ALL = every()
X86 = elf(MACHINES["x86_64"]) + RELOCATIONS
ARM = flat("arm64")


@pytest.fixture
def place(tmp_path) -> Path:
    return tmp_path / "vmlinuz"


def opened(place: Path, content: bytes) -> Payload:
    place.write_bytes(content)
    return unpack(place)


def refused(place: Path, content: bytes) -> str:
    """The sentence on a file with this content, from behind its name on."""
    place.write_bytes(content)
    return sentence(place)


def sentence(place: Path) -> str:
    said = complaint(lambda: unpack(place))
    assert str(place) in said and ". " not in said
    return said.replace(str(place), "FILE")


# -- what can be opened


@pytest.mark.parametrize("name", ALL)
def test_what_was_packed_comes_out(name, place):
    content, kernel = ALL[name]
    isa, _, packed = name.partition(": ")
    found = opened(place, content)
    assert found.data == kernel and found.isa.name == isa and found.packed == packed and found.path == place
    assert found.elf == kernel.startswith(b"\x7fELF") and found.sha256 == hashlib.sha256(content).hexdigest()


def test_all_containers_are_there():
    assert len(ALL) == 6 + 3 * 7 + 2 * (7 + 6)


@pytest.mark.parametrize("sectors", [0, 1, 39])
def test_a_bzimage_says_how_long_its_setup_is(sectors, place):
    content = bzimage(PACKERS["gzip"](X86), sectors=sectors)
    assert content[0x1F1] == sectors and opened(place, content).data == X86


def test_a_bzimage_that_cannot_tell_of_64_bits_is_judged_by_its_kernel(place):
    assert opened(place, bzimage(PACKERS["gzip"](X86), version=0x208, flags=0)).data == X86
    said = refused(place, bzimage(PACKERS["gzip"](elf(3)), version=0x208, flags=0))
    assert said == "FILE is for 32-bit x86: give one for x86-64, arm64 or riscv64."


def test_a_bzimage_may_be_packed_once_more(place):
    found = opened(place, PACKERS["xz"](bzimage(PACKERS["zstd"](X86))))
    assert found.data == X86 and found.packed == "bzImage, zstd, xz"


def test_an_image_without_efi_is_taken_as_it_is(place):
    assert opened(place, flat("riscv64", efi=False)[:100]).data == flat("riscv64", efi=False)[:100]


@pytest.mark.parametrize("behind", [b"\0", struct.pack("<I", len(ARM)), bytes(512), b"\xd0\x0d\xfe\xed" + bytes(99)], ids=len)
@pytest.mark.parametrize("name", PACKERS)
def test_what_lies_behind_a_stream_is_left_alone(name, behind, place):
    assert opened(place, PACKERS[name](ARM) + behind).data == ARM


@pytest.mark.parametrize("name", PACKERS)
def test_a_stream_may_be_followed_by_another(name, place):
    pack = PACKERS[name]
    assert opened(place, pack(ARM[:500]) + pack(ARM[500:]) + bytes(4)).data == ARM
    assert f"the {name} stream in FILE is truncated" in refused(place, pack(ARM[:500]) + pack(ARM[500:])[:-1])


@pytest.mark.parametrize("name", PACKERS)
def test_a_size_that_looks_like_another_stream_is_none(name, place):
    pack = PACKERS[name]
    assert opened(place, pack(ARM) + pack(ARM)[:4]).data == ARM


@pytest.mark.parametrize("length", [8 << 20, (8 << 20) + 1, 16 << 20])
def test_lz4_has_blocks(length, place):
    """The last of which may be full, and then only the size behind it, or the end of the file, ends the stream."""
    kernel = flat("arm64", bytes(length - len(flat("arm64", b""))))
    assert len(kernel) == length
    assert opened(place, lz4_legacy(kernel)).data == kernel
    assert opened(place, with_size(lz4_legacy)(kernel)).data == kernel
    assert opened(place, lz4_legacy(kernel) + lz4_legacy(b"more")).data == kernel + b"more"
    assert "is truncated" in refused(place, lz4_legacy(kernel)[:-1])
    if length % (8 << 20) == 0:
        assert "is truncated" in refused(place, lz4_legacy(kernel) + b"\1\0\0\0")
        assert "is garbled" in refused(place, lz4_legacy(kernel) + b"\xff\xff\xff\xff\0")


def test_lz4_has_newer_frames(place):
    found = opened(place, lz4_frame(ARM) + bytes(9))
    assert found.data == ARM and found.packed == "Image, lz4"
    assert "is truncated" in refused(place, lz4_frame(ARM)[:-1])
    assert "is garbled" in refused(place, lz4_frame(ARM)[:-1] + b"\0")


def test_an_elf_file_may_have_no_segments(place):
    """Such as a module's: it is for others to say what it lacks."""
    content = bytearray(elf(183))
    struct.pack_into("<H", content, 54, 0)
    struct.pack_into("<H", content, 56, 0)
    assert opened(place, bytes(content)).data == content


def test_a_link_is_followed(tmp_path, place):
    place.write_bytes(ARM)
    (tmp_path / "link").symlink_to(place)
    assert unpack(tmp_path / "link").data == ARM


# -- streams that cannot be unpacked


@pytest.mark.parametrize("name", PACKERS)
def test_a_stream_that_ends_early_is_truncated(name, place):
    packed = PACKERS[name](ARM)
    for length in range(6, len(packed)):
        said = complaint(lambda: packing.unpacked(packed[:length], place))  # noqa: B023 it is called at once
        assert said == f"the {name} stream in {place} is truncated: get the file anew, whole.", length


@pytest.mark.parametrize("name", sorted(CHECKED))
def test_a_stream_whose_checksum_is_wrong_is_garbled(name, place):
    packed = bytearray(PACKERS[name](ARM))
    packed[len(packed) // 2] ^= 1
    assert refused(place, bytes(packed)) == f"the {name} stream in FILE is garbled: get the file anew, and compare its checksum."


@pytest.mark.parametrize("block", [struct.pack("<I", 1 << 31), struct.pack("<I", 0), struct.pack("<I", 4) + b"\xff\xff\xff\xff"])
def test_a_block_of_lz4_may_be_garbled(block, place):
    assert "the lz4 stream in FILE is garbled" in refused(place, b"\x02\x21\x4c\x18" + block)
    assert "the lz4 stream in FILE is truncated" in refused(place, b"\x02\x21\x4c\x18")


@pytest.mark.parametrize("pack", [*PACKERS.values(), lz4_frame], ids=[*PACKERS, "lz4 frame"])
def test_unpacking_stops_at_the_limit(pack, place, monkeypatch):
    """And takes no more memory than that, and a chunk or a block: 64 MiB are packed here."""
    packed = pack(bytes(64 << 20))
    monkeypatch.setattr(packing, "LIMIT", 1 << 20)
    tracemalloc.start()
    try:
        said = refused(place, packed)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert "stream in FILE makes more than 0.000976562 GiB, where unpacking stops: give" in said


def test_reading_stops_at_the_limit(place, monkeypatch):
    monkeypatch.setattr(packing, "LIMIT", 1 << 20)
    place.touch()
    os.truncate(place, 1 << 30)  # without a byte on the disk
    tracemalloc.start()
    try:
        assert "FILE has more than 0.000976562 GiB, where reading stops: give" in sentence(place)
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()


def test_what_has_the_size_of_the_limit_is_unpacked(place, monkeypatch):
    packed = PACKERS["gzip"](ARM)
    monkeypatch.setattr(packing, "LIMIT", len(ARM))
    assert opened(place, packed).data == ARM
    monkeypatch.setattr(packing, "LIMIT", len(ARM) - 1)
    assert "unpacking stops" in refused(place, packed)
    assert "FILE has more than" in refused(place, ARM) and "where reading stops" in refused(place, ARM)


def test_a_decompressor_may_not_take_all_memory(place):
    lzma = bytearray(PACKERS["lzma"](ARM))
    lzma[1:5] = struct.pack("<I", 1 << 30)  # the dictionary's size
    zstd = b"\x28\xb5\x2f\xfd\x00" + bytes([20 << 3]) + b"\1\0\0"  # a window of 2**(10 + 20), and an empty block
    for packed in (bytes(lzma), zstd):
        assert "stream in FILE needs more than 0.25 GiB to be unpacked in: unpack it" in refused(place, packed)
    zstd = b"\x28\xb5\x2f\xfd\x00" + bytes([18 << 3]) + b"\1\0\0"
    assert refused(place, zstd).startswith("FILE is no kernel image")


def test_lzo_is_refused(place):
    lzo = b"\x89LZO\x00\x0d\x0a\x1a\x0a" + bytes(99)
    for content in (bzimage(lzo), zboot(lzo, "lzo"), lzo):
        assert refused(place, content) == (
            "the kernel in FILE is packed with lzo, which Tramplab does not unpack: "
            "unpack it by other means and give the vmlinux or Image that comes out."
        )


def test_an_unknown_compression_is_named_if_it_has_a_name(place):
    content = b"\x00\x11\x22\x33" + bytes(99)

    def said(named: str) -> str:
        return (
            f"the kernel in FILE is packed in a way not known here (it begins with 00 11 22 33{named}): "
            f"unpack it by other means and give the vmlinux or Image that comes out."
        )

    assert refused(place, bzimage(content)) == said("")
    assert refused(place, zboot(content, "brotli")) == said(", and its header calls it 'brotli'")
    assert refused(place, zboot(content, "\x07")) == refused(place, zboot(content, "\xff")) == said("")


# -- headers that do not fit


@pytest.mark.parametrize("wrong", [{"length": 1 << 20}, {"length": 0}, {"length": 0xFFFFFFFF}])
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
        assert said.endswith(f"packed kernel lie at {start}, but the file has {len(content)} bytes: get it anew, whole.")


def test_a_file_that_ends_in_its_header_is_truncated(place):
    gone = "FILE is truncated within its header: get the file anew, whole."
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
        (b"\x27\x05\x19\x56" + bytes(60), "a U-Boot image"),
        (b"\xd0\x0d\xfe\xed" + bytes(60), "a FIT image or a device tree"),
        (b"ANDROID!" + bytes(60), "an Android boot image"),
        (b"MZ" + bytes(600), "an EFI program without a known kernel header"),
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


def test_two_wrappings_are_one_too_many(place):
    assert refused(place, PACKERS["gzip"](PACKERS["gzip"](ARM))).startswith("FILE is no kernel image")


# -- no files

ADVICE = "give a kernel image, such as a package's boot/vmlinuz-* or your own build's vmlinux."


def test_a_file_that_is_not_there(tmp_path, place):
    (tmp_path / "link").symlink_to(place)
    assert sentence(place) == f"there is no file FILE: {ADVICE}"
    assert sentence(tmp_path / "link") == f"there is no file FILE: {ADVICE}"


def test_a_directory(tmp_path):
    assert sentence(tmp_path) == "FILE is a directory: give the kernel image in it."


def test_an_empty_file(place):
    assert refused(place, b"") == "FILE is empty: get the file anew."


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


def test_a_machine_without_memory(place, monkeypatch):
    def fail(*_):
        raise MemoryError

    place.write_bytes(PACKERS["gzip"](ARM))
    monkeypatch.setattr(packing, "unpacked", fail)
    assert sentence(place).startswith("there is not enough memory to unpack FILE: ")


# -- damage


def _word(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Four bytes replaced, half of the times among the first 600, where headers are."""
    at = rng.randrange(rng.choice((len(data), min(600, len(data)))))
    word = rng.choice((bytes(4), b"\xff" * 4, b"\0\0\0\x80", rng.randbytes(4)))
    return (data[:at] + word + data[at + 4 :])[: len(data)]


def _mixed(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """The beginning of one file, and the end of another."""
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


KINDS = (*(DAMAGES[kind] for kind in ("cut short", "a bit flipped", "appended to")), _word, _mixed)


@pytest.mark.parametrize("name", ALL)
def test_damage_makes_sentences(name, place):
    """Whatever happens to a file: its kernel comes out, or one sentence; where there is a checksum, no other kernel does."""
    rng, (content, kernel), others = random.Random(name), ALL[name], list(ALL.values())
    isa = name.partition(":")[0]
    refusals, kernels = 0, 0
    for turn in range(300):
        spoil = KINDS[turn % len(KINDS)]
        damaged = spoil(content, rng.choice(others)[0], rng)
        place.write_bytes(damaged)
        try:
            found = unpack(place)
        except TramplabError as e:
            said = str(e)
            assert str(place) in said and "\n" not in said and said.endswith("."), said
            refusals += 1
        else:
            kernels += 1
            assert found.data and found.elf == found.data.startswith(b"\x7fELF")
            if spoil is not _mixed and name.rpartition(", ")[2] in CHECKED:
                assert found.data == kernel and found.isa.name == isa
    assert refusals >= 60 and kernels >= 60
