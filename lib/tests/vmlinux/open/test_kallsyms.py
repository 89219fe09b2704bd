"""The kernel's table of symbols: found in every layout that is known, and none where there is none that is whole."""

import random
import struct
import time
import tracemalloc
from dataclasses import replace

import pytest

from support.base.damage import DAMAGES
from support.vmlinux import kernels
from support.vmlinux.kernels import LAYOUTS, TOKENS, Layout, changed, kallsyms, many
from tramplab.vmlinux.open.kallsyms import Table, read

BASE = 0xFFFFFFFF81000000
AT = BASE + 0x40000
#: What lies in front, so that the table is not at the beginning.
FRONT = b"\1" * 40
PERCPU = [("A__per_cpu_start", 0), ("Afixed_percpu_data", 0), ("Acurrent_task", 0x20B40), ("A__per_cpu_end", 0x39000)]
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
LATE = LAYOUTS["v6.12: base"]


def symbols(layout: Layout) -> list[tuple[str, int]]:
    return [*(PERCPU if layout.values == "percpu" else []), *many(BASE)]


def found(table: Table) -> list[tuple[str, int]]:
    return list(zip(table.names, table.values, strict=True))


def without_kinds(known: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return [(name[1:], address) for name, address in known]


def read_of(known: list[tuple[str, int]], layout: Layout, **more: bytes) -> Table | None:
    return read(FRONT + kallsyms(known, layout, AT, **more) + b"\2" * 40, AT - len(FRONT))


@every_layout
def test_every_layout_is_read(layout):
    table = read_of(symbols(layout), layout)
    assert table and found(table) == without_kinds(symbols(layout))
    assert table.based == (layout.values != "own")
    assert ("own" in table.layout) == (layout.values == "own") and ("per-CPU" in table.layout) == (layout.values == "percpu")


@every_layout
def test_every_layout_is_read_wherever_it_lies(layout):
    """At each alignment that it can have, in bytes and in a bytearray; what counts from its own place then does so from zero."""
    for shift in range(0, 32, 8 if layout.align == 8 else 4):
        data = bytes(shift) + kallsyms(symbols(layout), layout, AT + shift)
        table = read(bytearray(data), 0)
        assert table and table.names == [name[1:] for name, _ in symbols(layout)]
        moved = 0 if table.based else AT
        assert [v + moved for v in table.values] == [a for _, a in symbols(layout)]


@pytest.mark.parametrize("name", [n for n in LAYOUTS if "per-CPU" in n])
def test_a_kernel_that_names_only_its_functions_names_no_per_cpu_symbol(name):
    """CONFIG_KALLSYMS_ALL=n on x86-64: then the first value says "the base itself", and is not zero."""
    table = read_of(many(BASE), LAYOUTS[name])
    assert table and found(table) == without_kinds(many(BASE)) and "per-CPU" in table.layout


@pytest.mark.parametrize("length", [126, 127, 128, 129, 255, 256, 500])
@pytest.mark.parametrize("layout", [LATE, LAYOUTS["v7.2: own places"], LAYOUTS["v5.10: base, early"]], ids=["late", "own", "early"])
def test_long_names_have_two_bytes_for_their_length(layout, length):
    """Wherever they stand: within the first names that are looked at, and behind."""
    known = many(BASE)
    for n in (3, 255, 256, 700, len(known) - 1):
        known[n] = ("t" + f"{n}_" + "abcdefgh" * 64)[:length], known[n][1]
    table = read_of(known, layout)
    assert table and found(table) == without_kinds(known)
    assert {len(name) for name in table.names} >= {length - 1}


@pytest.mark.parametrize("number", [1000, 1023, 1024, 1025, 1280, 3000])
def test_any_number_of_names(number):
    for layout in (LATE, LAYOUTS["v6.1.16: base, early, three bytes of index"]):
        table = read_of(many(BASE, number), layout)
        assert table and found(table) == without_kinds(many(BASE, number))


def test_too_few_names_are_no_kernel():
    assert read_of(many(BASE, 999), LATE) is None


@pytest.mark.parametrize(
    "index",
    [
        struct.pack("<600I", *(600 * n for n in range(600))),  # one list of markers
        struct.pack("<240I", *(600 * (n % 6) for n in range(240))),  # forty
        struct.pack("<600I", *(70000 + 600 * n for n in range(600))),  # which go on where the markers end
        bytes(2400),
    ],
    ids=["markers", "many markers", "more markers", "zeros"],
)
def test_what_looks_like_markers_behind_the_markers_is_passed_over(index):
    known = many(BASE)
    table = read_of(known, LAYOUTS["v6.2: base, early, four bytes of index"], index=index)
    assert table and found(table) == without_kinds(known)


def with_words(data: bytes, start: int, word: int) -> tuple[bytes, int]:
    """A table in whose names this word stands wherever one lies whole in a name's tokens, which mean nothing; and how often."""
    out, at, times = bytearray(data), start, 0
    for _ in range(2000):
        last = at + out[at]
        for place in range(at + 4 & ~3, last - 3, 8):
            struct.pack_into("<I", out, place, word)
            times += 1
        at = last + 1
    return bytes(out), times


@every_layout
def test_hundreds_of_words_among_the_names_that_may_be_their_number(layout):
    """As in Debian's 6.12.43 for arm64, where the right one was the 307th; also where an index goes on as if it were markers."""
    known, more = many(BASE, 3000), struct.pack("<3I", 70000, 70600, 71200)
    index = more.ljust(3000 * layout.seqs, b"\1") if layout.early and layout.seqs else None
    data = kallsyms(known, layout, AT, index)
    data, times = with_words(data, data.index(struct.pack("<I", 3000)) + layout.align, 1000)
    table = read(data, AT)
    assert times > 2000 and table and table.values == [address for _, address in known]


@every_layout
def test_a_few_symbols_out_of_order_are_taken_as_they_are(layout):
    known = many(BASE, 3000)
    known[1500], known[1501] = (known[1500][0], known[1501][1]), (known[1501][0], known[1500][1])
    table = read_of([*PERCPU, *known] if layout.values == "percpu" else known, layout)
    assert table and found(table)[-3000:] == without_kinds(known)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"0\0001\0002\0003\0004\0005\0006\0007\0008\0009\0",
        bytes(100_000),
        b"\xff" * 100_000,
        random.Random(1).randbytes(200_000),
        b"".join(b"%d\0" % (n % 10) for n in range(100_000)),
        b"0\0001\0002\0003\0004\0005\0006\0007\0008\0009\0" + bytes(100_000),
    ],
)
def test_no_table(data):
    start = time.process_time()
    assert read(data, BASE) is None
    assert time.process_time() - start < 5


def damage(layout: Layout) -> tuple[bytes, dict[str, int]]:
    """A table, and where its parts begin."""
    data = kallsyms(symbols(layout), layout, AT)
    tokens = data.index(b"".join(t.encode() + b"\0" for t in TOKENS))
    number = data.index(struct.pack("<I", len(symbols(layout))))
    names = number + layout.align
    markers = next(at for at in range(names, tokens, 4) if data[at : at + 4] == bytes(4) and _step(data, at) > 512)
    return data, {"number": number, "names": names, "markers": markers, "tokens": tokens, "index": tokens + _tokens_size(layout)}


def _step(data: bytes, at: int) -> int:
    return int.from_bytes(data[at + 4 : at + 8], "little")


def _tokens_size(layout: Layout) -> int:
    size = sum(len(t) + 1 for t in TOKENS)
    return size + -size % layout.align


LIES = {
    "no names": ("number", "<I", 0),
    "one name more": ("number", "<I", 1101),
    "a name too few, which is of another length": ("number", "<I", 900),
    "2^32 names": ("number", "<I", 0xFFFFFFFF),
    "a name of no length": ("names", "<B", 0),
    "a name of another length": ("names", "<B", 9),
    "a name of 32767 bytes": ("names", "<H", 0xFFFF),
    "markers that begin with one": ("markers", "<I", 1),
    "markers that step too far": ("markers", "<II", 0, 1 << 30),
    "markers that do not step": ("markers", "<III", 0, 0, 0),
    "a token that is not where the index says": ("index", "<H", 1),
    "a table of tokens that would begin before the data": ("index", "<256H", *range(65000, 65256)),
    "an index of zeros": ("index", "<256H", *([0] * 256)),
}


@pytest.mark.parametrize("lie", LIES)
@every_layout
def test_a_lie_in_the_table_is_no_table(lie, layout):
    data, places = damage(layout)
    where, form, *values = LIES[lie]
    table = read(changed(data, places[where], form, *values), AT)
    if lie == "one name more":  # what lies behind the last may be taken for one, but no value then fits
        assert table is None or len(table.names) in (1101, 1100)
    else:
        assert table is None or found(table) == without_kinds(symbols(layout))
        assert table is None or "name" not in lie


def test_tokens_that_would_make_gigabytes_are_refused(monkeypatch):
    """Each name of seventy tokens, each of them sixty kilobytes: four gigabytes. And one of sixteen thousand."""
    known = [("t" + "ftrace_" * 70, a) for _, a in many(BASE)]
    assert read(kallsyms(known, LATE, AT), AT)
    monkeypatch.setattr(kernels, "TOKENS", ["x" * 60_000 if t == "ftrace_" else t for t in TOKENS])
    tracemalloc.start()
    for first in ("t" + "ftrace_" * 70, "t" + "ftrace_" * 16_000):
        known[0] = first, known[0][1]
        assert read(kallsyms(known, LATE, AT), AT) is None
    assert tracemalloc.get_traced_memory()[1] < 30 << 20
    tracemalloc.stop()


@every_layout
def test_a_table_cut_anywhere_is_none_or_whole(layout):
    data = kallsyms(symbols(layout), layout, AT)
    needed = len(data) if layout.early else len(kallsyms(symbols(layout), replace(layout, seqs=0), AT))
    for end in {*range(0, len(data), 353), *range(len(data) - 40, len(data)), *range(needed - 40, needed + 1)}:
        table = read(data[:end], AT)
        assert (table is not None) == (end >= needed)
        assert table is None or found(table) == without_kinds(symbols(layout))


@every_layout
def test_a_garbled_table_is_none_or_has_a_value_for_each_name(layout):
    rng, data = random.Random(layout.values), kallsyms(symbols(layout), layout, AT)
    other, read_in_full = random.Random(2).randbytes(3000), 0
    for n in range(60):
        how = list(DAMAGES.values())[n % len(DAMAGES)]
        table = read(how(data, other, rng), AT)
        assert table is None or len(table.names) == len(table.values) >= 1000
        read_in_full += table is not None
    assert 5 < read_in_full < 50
