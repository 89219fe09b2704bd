"""Unpacking: where streams end and go on, those that are cut short or garbled, and limits."""

import os
import struct
import tracemalloc

import pytest

from support.complaints import complaint
from support.vmlinux.containers import CHECKED, PACKERS, bzimage, flat, lz4_frame, lz4_legacy, with_size, zboot
from support.vmlinux.payloads import opened, refused, sentence
from tramplab.vmlinux.open.unpacking import decompress

ARM = flat("arm64")


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


@pytest.mark.parametrize("name", PACKERS)
def test_a_stream_that_ends_early_is_truncated(name, place):
    packed = PACKERS[name](ARM)
    for length in range(6, len(packed)):
        said = complaint(lambda: decompress.unpacked(packed[:length], place))  # noqa: B023 it is called at once
        assert said == f"the {name} stream in {place} is truncated: get the whole file again.", length


@pytest.mark.parametrize("name", sorted(CHECKED))
def test_a_stream_whose_checksum_is_wrong_is_garbled(name, place):
    packed = bytearray(PACKERS[name](ARM))
    packed[len(packed) // 2] ^= 1
    assert refused(place, bytes(packed)) == f"the {name} stream in FILE is garbled: get the file again, and compare its checksum."


@pytest.mark.parametrize("block", [struct.pack("<I", 1 << 31), struct.pack("<I", 0), struct.pack("<I", 4) + b"\xff\xff\xff\xff"])
def test_a_block_of_lz4_may_be_garbled(block, place):
    assert "the lz4 stream in FILE is garbled" in refused(place, b"\x02\x21\x4c\x18" + block)
    assert "the lz4 stream in FILE is truncated" in refused(place, b"\x02\x21\x4c\x18")


@pytest.mark.parametrize("pack", [*PACKERS.values(), lz4_frame], ids=[*PACKERS, "lz4 frame"])
def test_unpacking_stops_at_the_limit(pack, place, monkeypatch):
    """And takes no more memory than that, and a chunk or a block: 64 MiB are packed here."""
    packed = pack(bytes(64 << 20))
    monkeypatch.setattr(decompress, "LIMIT", 1 << 20)
    tracemalloc.start()
    try:
        said = refused(place, packed)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert "stream in FILE makes more than 0.000976562 GiB, where unpacking stops: give" in said


def test_reading_stops_at_the_limit(place, monkeypatch):
    monkeypatch.setattr(decompress, "LIMIT", 1 << 20)
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
    monkeypatch.setattr(decompress, "LIMIT", len(ARM))
    assert opened(place, packed).data == ARM
    monkeypatch.setattr(decompress, "LIMIT", len(ARM) - 1)
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
