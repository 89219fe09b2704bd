"""Relocations of small images made by hand: found without knowing where, the link address by them, and the pointers they adjust."""

import random
import struct
import time
import tracemalloc

import numpy as np
import pytest

from support.base.damage import DAMAGES
from support.vmlinux.kernels import APART, BASES, POINTERS, RELATIVE, Content, pointed, rela, relr
from tramplab.vmlinux.open.relocate import adjust, find, linked, listed
from tramplab.vmlinux.open.relocate import pointed as address

ALIGN = 1 << 21
BASE = BASES["arm64"]
ISAS = sorted(RELATIVE)


def image(
    kind: str, base: int = BASE, isa: str = "arm64", front: bytes = b"", behind: bytes = b"", phase: int = 0
) -> tuple[bytes, dict]:
    """An image with pointers, and their places. front, behind: what lies around the relocations. phase: words in front of all."""
    made = Content(base, bytearray(b"\2\0\0\0" * 1024 + bytes(8 * phase)))
    made.add(bytes(POINTERS * APART))
    pointers = pointed(made)
    if kind == "RELR":
        for place, pointer in pointers.items():
            struct.pack_into("<Q", made.data, place - base, pointer)
    table = relr(list(pointers)) if kind == "RELR" else rela(pointers, RELATIVE[isa])
    made.add(front + table + behind)
    made.add(bytes(5000))
    return bytes(made.data), pointers


def words(data: bytes, base: int, places) -> list[int]:
    return [int.from_bytes(data[p - base : p - base + 8], "little") for p in places]


@pytest.mark.parametrize("phase", range(3))
@pytest.mark.parametrize("isa", ISAS)
def test_rela_is_found_and_adjusts(isa, phase):
    base = BASES[isa]
    data, pointers = image("RELA", base, isa, phase=phase)
    found = find(data, isa)
    assert found and found.kind == "RELA" and dict(zip(found.adjusted.tolist(), found.pointers.tolist(), strict=True)) == pointers
    assert linked(data, found, ALIGN, 0) == base
    out = adjust(data, found, base)
    assert words(out, base, pointers) == list(pointers.values()) and set(words(data, base, pointers)) == {0}
    assert len(out) == len(data) and sum(a != b for a, b in zip(out, data, strict=True)) <= 8 * len(pointers)


def test_rela_of_an_image_whose_linker_has_put_the_pointers_in_place():
    data, pointers = image("RELA")
    out = bytearray(data)
    for place, pointer in pointers.items():
        struct.pack_into("<Q", out, place - BASE, pointer)
    found = find(bytes(out), "arm64")
    assert found and linked(bytes(out), found, ALIGN, 0) == BASE and adjust(out, found, BASE) == out


def test_another_kind_of_rela_is_none():
    data, _ = image("RELA", isa="riscv64")
    assert find(data, "arm64") is None and find(data, "riscv64")


def test_numbers_that_look_like_rela_are_none():
    """Where it has the places, there is something else than addresses."""
    data = b"".join(struct.pack("<QQQ", n, 3, BASE) for n in range(5000))
    assert find(data, "riscv64") is None


@pytest.mark.parametrize("base", [BASE, 0xFFFFC00080000000, 0xFFFF800008000000, 0xFFFFFFC080000000])
def test_relr_is_found(base):
    """Whatever the size of virtual addresses (CONFIG_ARM64_VA_BITS) is."""
    data, pointers = image("RELR", base)
    found = find(data, "arm64")
    assert found and found.kind == "RELR" and sorted(found.places.tolist()) == sorted(pointers) and not len(found.adjusted)
    assert linked(data, found, ALIGN, 0) == base and adjust(data, found, base) == data


def test_relr_of_places_that_are_not_on_words():
    """As packed structs have them: each begins anew, behind a bitmap that would reach further."""
    places = sorted(BASE + 4096 + 26 * n + of for n in range(1500) for of in (0, 8))
    data = bytes(40_000) + relr(places) + bytes(1000)
    found = find(data, "arm64")
    assert found and sorted(found.places.tolist()) == places


STRAY = {
    "nothing": b"",
    "an address below": struct.pack("<Q", BASE + 64),
    "an address above": struct.pack("<Q", BASE + 0x700000),
    "an address far below": struct.pack("<Q", 0xFF00 << 48),
    "an address far above": struct.pack("<Q", (1 << 64) - 8),
    "bitmaps": struct.pack("<3Q", 5, 7, (1 << 64) - 1),
    "addresses, up and down": struct.pack("<5Q", *(BASE + n for n in (0x10000, 0x8000, 0x20000, 0x9000, 0x30000))),
    "zeros": bytes(64),
}


@pytest.mark.parametrize("stray", STRAY)
def test_what_lies_in_front_of_relr(stray):
    """Other pointers may be taken for its first places, and never lead to another link address."""
    data, pointers = image("RELR", front=STRAY[stray])
    found = find(data, "arm64")
    assert found and set(found.places.tolist()) >= set(pointers) and len(found.places) < len(pointers) + 10
    assert linked(data, found, ALIGN, 0) == BASE and adjust(data, found, BASE) == data


@pytest.mark.parametrize("stray", STRAY)
def test_what_lies_behind_relr(stray):
    data, pointers = image("RELR", behind=STRAY[stray])
    found = find(data, "arm64")
    assert found and set(found.places.tolist()) >= set(pointers)
    assert linked(data, found, ALIGN, 0) == BASE


@pytest.mark.parametrize("unused", [0, 1, 1000])
@pytest.mark.parametrize("target", [0, 0x700000], ids=["below", "above"])
def test_rela_in_front_of_relr_is_adjusted(target, unused):
    """What RELR cannot say, and entries that the linker had no use for in the end. Where the last pointer is below the places of
    RELR, it looks like one."""
    lonely = {BASE + 16 * n + 4096 + 40: BASE + target + 8 * n for n in range(7)}
    symbolic = struct.pack("<QQQ", BASE + 4096, 5 << 32 | 1025, 0)
    data, pointers = image("RELR", front=symbolic + rela(lonely, 1027) + bytes(24 * unused))
    found = find(data, "arm64")
    assert found and dict(zip(found.adjusted.tolist(), found.pointers.tolist(), strict=True)) == lonely
    assert set(found.places.tolist()) >= set(pointers) and linked(data, found, ALIGN, 0) == BASE
    assert words(adjust(data, found, BASE), BASE, lonely) == list(lonely.values())


def test_rela_in_front_of_relr_is_not_put_over_anything():
    taken = {BASE + 64: BASE + 8}  # where the image has other bytes
    data, _ = image("RELR", front=rela(taken, 1027))
    found = find(data, "arm64")
    assert found and len(found.adjusted) == 1 and adjust(data, found, BASE) == data


def test_the_link_address_has_an_offset():
    """Up to v5.7 an arm64 kernel lies 512 KiB behind a multiple of 2 MiB, as its header says."""
    for kind in ("RELA", "RELR"):
        data, _ = image(kind, BASE + 0x80000)
        found = find(data, "arm64")
        assert found and linked(data, found, ALIGN, 0x80000) == BASE + 0x80000


def test_a_large_image_has_many_candidates():
    """Of which one fits."""
    data, pointers = image("RELR", BASE + 5 * ALIGN, behind=bytes(3 * ALIGN))
    found = find(data, "arm64")
    assert found and linked(data, found, ALIGN, 0) == BASE + 5 * ALIGN and len(found.places) == len(pointers)


def test_relocations_that_fit_nowhere_tell_no_address():
    data, _ = image("RELR")
    found = find(data, "arm64")
    assert found and linked(random.Random(1).randbytes(len(data)), found, ALIGN, 0) is None
    far = listed(rela({BASE + (n << 30): BASE for n in range(1000)}, 1027), "arm64")
    assert linked(data, far, ALIGN, 0) is None
    low = listed(rela({8 * n: 8 for n in range(1000)}, 1027), "arm64")
    assert linked(data, low, ALIGN, 0) is None


def test_places_outside_are_left_alone():
    """One just before, one that reaches over the end, one far away, and one within."""
    found = listed(rela({BASE - 8: 1, BASE + 96: 2, BASE + 93: 3, 0: 4, (1 << 64) - 8: 5, BASE + 3: 6}, 1027), "arm64")
    out = adjust(bytes(100), found, BASE)
    assert out == bytes(3) + b"\6" + bytes(96)
    assert adjust(b"", found, BASE) == b"" and adjust(memoryview(b"abc"), found, BASE) == b"abc"


def test_a_section_of_rela_may_have_other_kinds():
    table = struct.pack("<9Q", BASE, 1027, 7, BASE + 8, 5 << 32 | 257, 8, BASE + 16, 1027, 9)
    found = listed(table + b"rest", "arm64")
    assert found.adjusted.tolist() == [BASE, BASE + 16] and found.pointers.tolist() == [7, 9]
    assert not len(listed(b"", "riscv64").adjusted)


NONE = {
    "nothing": b"",
    "less than a word": b"\1\2\3",
    "zeros": bytes(100_000),
    "ones": b"\xff" * 100_000,
    "noise": random.Random(1).randbytes(200_000),
    "pointers in order": struct.pack("<9000Q", *range(BASE, BASE + 8 * 9000, 8)),
    "pointers and numbers": struct.pack("<9000Q", *(BASE + 8 * n if n % 3 else 2 * n for n in range(9000))),
    "pointers in no order": struct.pack("<9000Q", *(BASE + (n * 7919 % 9001) * 8 + n % 2 for n in range(9000))),
    "too few": relr(range(BASE, BASE + 999 * 1040, 1040)),
}


@pytest.mark.parametrize("data", NONE.values(), ids=NONE)
def test_no_relocations(data):
    for isa in ISAS:
        found = find(data, isa)
        assert found is None or linked(data, found, ALIGN, 0) is None


def test_bitmaps_that_would_make_gigabytes_are_none():
    """Sixty-three places for each of two million odd words."""
    data = np.full(2 << 20, (1 << 64) - 1, np.uint64)
    data[::40] = np.arange(BASE, BASE + 8 * len(data[::40]), 8, dtype=np.uint64)
    tracemalloc.start()
    start = time.process_time()
    assert find(data.tobytes(), "arm64") is None
    assert time.process_time() - start < 5 and tracemalloc.get_traced_memory()[1] < 150 << 20
    tracemalloc.stop()


def test_cut_and_garbled_images():
    """Nothing but an address or none comes of them, and nothing but what is written to their places."""
    rng, other = random.Random(4), random.Random(2).randbytes(3000)
    for kind in ("RELA", "RELR"):
        data, pointers = image(kind, front=rela({BASE + 4096: BASE}, 1027) if kind == "RELR" else b"")
        right = 0
        for n in range(120):
            damaged = list(DAMAGES.values())[n % len(DAMAGES)](data, other, rng)
            if n % 4 == 3:  # where the relocations are
                at = rng.randrange(len(data) - 30_000, len(data) - 6000)
                damaged = data[:at] + rng.randbytes(40) + data[at + 40 :]
            found = find(damaged, "arm64")
            base = linked(damaged, found, ALIGN, 0) if found else None
            assert base in (None, BASE)
            if found and base:
                out = adjust(damaged, found, base)
                right += words(out, BASE, pointers) == list(pointers.values())
        assert right > 20


@pytest.mark.parametrize("base", [BASE, 0xFFFFC00080000000, 0xFFFF800008010000])
def test_pointers_tell_the_address_of_an_image_that_cannot_be_moved(base):
    """By where the symbols are that they lead to; noise beside them, which looks like pointers, does not matter."""
    offset, rng = base % ALIGN, random.Random(1)
    made = Content(base, bytearray(8192))
    for _ in range(3000):
        made.add(struct.pack("<Q", base + 16 * rng.randrange(1, 500)))
        made.add(struct.pack("<Q", rng.choice((rng.randrange(-(1 << 50), 0), base + rng.randrange(1 << 25))) & (1 << 64) - 1))
    symbols = range(16, 8000, 16)
    assert address(bytes(made.data), symbols, ALIGN, offset) == base
    assert address(bytes(made.data), range(1 << 30, (1 << 30) + 8000, 16), ALIGN, offset) is None
    assert address(bytes(made.data[:8192]), symbols, ALIGN, offset) is None
