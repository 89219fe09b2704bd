"""Bringing text to its booted state, in a small kernel: what is patched, by which tables, and one sentence where they are
damaged."""

import random
import struct

import pytest

from support.complaints import complaint
from support.vmlinux import bootable
from support.vmlinux.bootable import ALWAYS, BOOTED, KEY, LINKED, NOT, TABLES, at, table
from support.vmlinux.kernels import BASES, changed, content, flat, many
from support.vmlinux.small_kernels import memory, opened
from tramplab.base.errors import TramplabError
from tramplab.isa.arm64 import NOP
from tramplab.isa.riscv64 import NOP4
from tramplab.vmlinux.booted import boot
from tramplab.vmlinux.booted.alternatives import POPCNT
from tramplab.vmlinux.booted.mitigations import LINKED as MITIGATED
from tramplab.vmlinux.booted.mitigations import RETPOLINES, SRSO
from tramplab.vmlinux.booted.mitigations import SAFE as SAFE_RETURNS
from tramplab.vmlinux.open.image import Opened

NEEDED = ("__alt_instructions", "__return_sites", "__retpoline_sites")
every_needed = pytest.mark.parametrize("name", NEEDED)
without_sections = pytest.mark.parametrize("sections", [True, False])


def patched(kernel: Opened, number: int, mitigations: str = "none") -> bytes:
    """What lies after a function's site in the booted kernel."""
    image = boot(kernel, mitigations).image
    segment = next(s for s in image.segments if s.executable)
    start = at(number) + 5 - segment.address
    return segment.data[start : start + len(LINKED[number])]


def refused(place, data: bytes) -> str:
    """The sentence on a kernel that is opened and cannot be booted."""
    kernel = opened(place, data)
    said = complaint(lambda: boot(kernel))
    assert str(place) in said and ". " not in said
    return said.replace(str(place), "FILE")


@without_sections
def test_all_that_is_patched(sections, place):
    kernel = opened(place, bootable.kernel(sections=sections))
    assert {n: memory(kernel, at(n) + 5, len(code)) for n, code in LINKED.items()} == LINKED
    assert {n: patched(kernel, n) for n in LINKED} == BOOTED
    assert boot(kernel).done == (
        "5 patch sites became NOPs",
        "2 of 2 alternatives applied, for a CPU with no feature but POPCNT; padding became long NOPs",
        "1 static calls made direct",
        "1 returns and 1 indirect branches made plain",
    )


@without_sections
def test_with_mitigations_returns_and_branches_stay(sections, place):
    kernel = opened(place, bootable.kernel(sections=sections))
    assert {n: patched(kernel, n, MITIGATED) for n in LINKED} == {**BOOTED, 1: LINKED[1], 2: LINKED[2]}


def test_functions_of_one_name_are_all_patched(place, monkeypatch):
    for number in (0, 1, 2, 3, 4):
        monkeypatch.setitem(bootable._NAMES, number, "tsame")
    kernel = opened(place, bootable.kernel())
    assert kernel.address("same") == at(0) and boot(kernel).done[0] == "5 patch sites became NOPs"


SAFE = "srso_return_thunk"


@without_sections
def test_retpolines_and_safe_returns(sections, place, monkeypatch):
    """Returns jump to SRSO's thunk, and the thunk of a register stays the retpoline that it is linked as, although a CPU without
    features has an alternative there."""
    monkeypatch.setitem(bootable._NAMES, 9, f"T{SAFE}")
    in_thunk = {table("__alt_instructions"): struct.pack("<i", at(7) - table("__alt_instructions"))}
    kernel = opened(place, bootable.kernel(sections=sections, patches=in_thunk))
    safe = b"\xe9" + struct.pack("<i", at(9) - at(1) - 10)
    assert kernel.address(SAFE) == at(9) != at(6)
    plain, safely = (boot(kernel, mitigations).image for mitigations in ("none", SRSO))
    assert {n: patched(kernel, n, SRSO) for n in (1, 2)} == {1: safe, 2: LINKED[2]}
    linked = memory(kernel, at(7), 5)
    after = [next(s for s in image.segments if s.executable) for image in (plain, safely)]
    found = [s.data[at(7) - s.address :][:5] for s in after]
    assert found[0] != linked == found[1]
    assert boot(kernel, SRSO).done[-1] == "1 returns are safe ones, indirect branches are retpolines"


@without_sections
def test_retpolines_or_safe_returns(sections, place, monkeypatch):
    """One of the two, and the other plain."""
    monkeypatch.setitem(bootable._NAMES, 9, f"T{SAFE}")
    kernel = opened(place, bootable.kernel(sections=sections))
    both = {n: patched(kernel, n, SRSO) for n in (1, 2)}
    assert [{n: patched(kernel, n, kind) for n in (1, 2)} for kind in (RETPOLINES, SAFE_RETURNS)] == [
        {1: BOOTED[1], 2: both[2]},
        {1: both[1], 2: BOOTED[2]},
    ]
    assert [boot(kernel, kind).done[-1] for kind in (RETPOLINES, SAFE_RETURNS)] == [
        "1 returns made plain, indirect branches are retpolines",
        "1 returns are safe ones, 1 indirect branches made plain",
    ]


def test_a_return_may_have_a_prefix(place, monkeypatch):
    """clang gives it one, to the same thunk; INT3 fills what a return does not need."""
    monkeypatch.setitem(bootable._NAMES, 9, f"T{SAFE}")
    monkeypatch.setitem(LINKED, 1, bytes.fromhex("2ee9") + struct.pack("<i", at(6) - at(1) - 11))
    kernel = opened(place, bootable.kernel())
    safe = b"\xe9" + struct.pack("<i", at(9) - at(1) - 10) + b"\xcc"
    assert [patched(kernel, 1, mitigations) for mitigations in ("none", SRSO)] == [b"\xc3" + b"\xcc" * 5, safe]


def test_a_static_call_may_be_a_conditional_jump(place, monkeypatch):
    """clang makes one of a tail call: it leads to what the key holds, or to a return where that is nothing."""
    monkeypatch.setitem(LINKED, 3, bytes.fromhex("0f84") + struct.pack("<i", at(20) - at(3) - 11))
    leads = {n: bytes.fromhex("0f84") + struct.pack("<i", at(n) - at(3) - 11) for n in (8, 9)}
    assert patched(opened(place, bootable.kernel()), 3) == leads[8]
    nothing = relative(table("__start_static_call_sites") + 4, KEY - 16)
    assert patched(opened(place, bootable.kernel(patches=nothing)), 3) == LINKED[3]
    monkeypatch.setitem(bootable._NAMES, 9, "t__static_call_return")
    assert patched(opened(place, bootable.kernel(patches=nothing)), 3) == leads[9]


def test_a_return_that_is_none(place, monkeypatch):
    monkeypatch.setitem(LINKED, 1, bytes.fromhex("9090909090"))
    said = f"FILE is damaged, no jump to the return thunk is at {at(1) + 5:#x}, where its table of returns points: "
    assert refused(place, bootable.kernel()).startswith(said)


@pytest.mark.parametrize(("isa", "nop", "shape"), [("arm64", NOP, "mov-bl"), ("riscv64", NOP4, "detour8")])
def test_sites_where_nothing_of_the_text_is_in_front(isa, nop, shape, place):
    """The first function begins the text, and what lies before it is looked at all the same; riscv64's NOPs may be full ones."""
    head = flat(isa, b"")
    known = [(name.replace("function_number_5_of_ftrace_", "ftrace_caller"), address) for name, address in many(BASES[isa])]
    made = content(BASES[isa], head=head, known=known)
    data = flat(isa, bytes(made.data[len(head) :]).replace(bytes(range(1, 17)), nop * 2 + bytes(range(1, 9))))
    kernel = opened(place, data)
    booted = boot(kernel)
    assert booted.shape == shape and kernel.text[0] == next(s for s in kernel.image.segments if s.executable).address


def test_a_kernel_without_a_safe_return_says_which_mitigations_it_has(place):
    kernel = opened(place, bootable.kernel())
    said = complaint(lambda: boot(kernel, SRSO))
    assert said == f"{place} has no {SAFE}: use --mitigations linked."


def entry(number: int, feature: int, flags: int) -> dict[int, bytes]:
    """The feature and the flags of an alternative."""
    return {table("__alt_instructions") + 14 * number + 8: struct.pack("<HH", feature, flags)}


@pytest.mark.parametrize(
    ("feature", "flags", "applied"),
    [(5, NOT, True), (5, 0, False), (ALWAYS, NOT, False), (ALWAYS, 0, True), (POPCNT, NOT, False), (POPCNT, 0, True)],
)
def test_an_alternative_asks_for_a_feature_that_is_there_or_not(feature, flags, applied, place):
    """Its flags are in the same word as the feature's number."""
    kernel = opened(place, bootable.kernel(patches=entry(0, feature, flags)))
    assert patched(kernel, 0) == (BOOTED[0] if applied else bytes.fromhex("0f1f440000"))


# -- tables that are not there


@every_needed
def test_a_table_that_the_image_does_not_name_is_missed(name, place):
    for sections in (True, False):
        assert refused(place, bootable.kernel(without=name, sections=sections)) == (
            f"FILE does not say where its table {name} lies, so its text cannot be brought to its booted state: give a kernel with "
            f"CONFIG_KALLSYMS_ALL=y, or the vmlinux of its build with its symbols."
        )


@every_needed
def test_a_table_in_which_nothing_lies_is_damaged(name, place):
    end = f"{name}_end"
    said = refused(place, bootable.kernel(empty=name))
    assert said == f"FILE is damaged, nothing lies between its symbols {name} and {end}: get the whole file again."


def test_a_kernel_without_static_calls_has_no_table_of_them(place):
    kernel = opened(place, bootable.kernel(without="__start_static_call_sites"))
    assert patched(kernel, 3) == LINKED[3] and "0 static calls made direct" in boot(kernel).done


def test_a_kernel_of_which_no_alternatives_are_known_is_refused(place):
    data = bootable.kernel()
    said = refused(place, data.replace(b"alt_instr\0", b"alt_other\0"))
    assert said.startswith("FILE has no struct 'alt_instr'")
    said = refused(place, data.replace(b"\0repl_offset\0", b"\0some_offset\0"))
    assert said.startswith("FILE has no member of struct alt_instr 'repl_offset'")


# -- tables that lie


def word(value: int) -> bytes:
    return struct.pack("<i", value)


def relative(place_of: int, target: int) -> dict[int, bytes]:
    return {place_of: word(target - place_of)}


ALTERNATIVES = table("__alt_instructions")
LIES = {
    "a replacement where nothing is": relative(ALTERNATIVES + 4, KEY + 0x8000),
    "a replacement that is no instruction": {**relative(ALTERNATIVES + 4, KEY), KEY: b"\x06" * 8},
    "a replacement longer than its site": {ALTERNATIVES + 12: b"\x01\x02"},
    "a site at the end of the text": {**relative(ALTERNATIVES, at(1096) - 1), ALTERNATIVES + 12: b"\xff\x02"},
    "a pointer of a paravirt call to nowhere": {KEY: bytes(8)},
    "a static call's key that points to nowhere": {KEY: b"\x01" * 8, **entry(1, 5, 0)},
    "a static call's key where nothing is": relative(table("__start_static_call_sites") + 4, KEY + 0x8000),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_table_that_lies_is_one_sentence_with_the_files_name(lie, place):
    said = refused(place, bootable.kernel(patches=LIES[lie]))
    assert said.startswith("FILE is damaged, ") and said.endswith(": get the whole file again.")


@without_sections
def test_random_data_makes_sentences(sections, place):
    """Any bytes of tables, pointers, symbols and types: it boots, or there is a sentence with the file's name."""
    rng, boots, refusals = random.Random(42), 0, 0
    data = bootable.kernel(sections=sections)
    tables = data.index(memory(opened(place, data), TABLES, 64))
    for n in range(400):
        damaged, first, last = data, *((tables, tables + 96) if n % 2 else (64 + 112 + 4096, len(data) - 8))
        for _ in range(rng.choice((1, 3, 20))):
            spot = rng.randrange(first, last - 8)
            damaged = changed(damaged, spot, f"{rng.choice((1, 4, 8))}s", rng.choice((rng.randbytes(8), b"\xff" * 8, bytes(8))))
        place.write_bytes(damaged)
        try:
            kernel = opened(place, damaged)
            assert boot(kernel).shape == "nop5"
            boots += 1
        except TramplabError as e:
            said = str(e)
            assert str(place) in said and "\n" not in said and said.endswith(".") and ". " not in said, said
            refusals += 1
    assert boots > 50 and refusals > 50
