"""Opening kernel images: every container with every compression, and random damage."""

import hashlib
import random
import struct

import pytest

from support.base.damage import DAMAGES
from support.vmlinux.containers import CHECKED, MACHINES, PACKERS, RELOCATIONS, bzimage, elf, every, flat
from support.vmlinux.payloads import opened, refused
from tramplab.base.errors import TramplabError
from tramplab.vmlinux.open.unpacking.payload import unpack

ALL = every()
X86 = elf(MACHINES["x86_64"]) + RELOCATIONS
ARM = flat("arm64")


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
