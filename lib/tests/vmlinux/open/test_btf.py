"""Struct layouts and prototypes from BTF made by hand, and a sentence for what contradicts itself."""

import random
import struct
import time
from pathlib import Path

import pytest

from support.base.damage import DAMAGES
from support.complaints import complaint
from support.vmlinux.kernels import (
    ARRAY,
    CONST,
    DATASEC,
    DECL_TAG,
    ENUM,
    ENUM64,
    FLOAT,
    FUNC,
    FWD,
    PROTO,
    PTR,
    RESTRICT,
    STRUCT,
    TYPE_TAG,
    TYPEDEF,
    UNION,
    VAR,
    VOLATILE,
    Types,
    changed,
    types,
)
from support.vmlinux.small_kernels import OPS
from tramplab.base.errors import TramplabError
from tramplab.build.dwarf import Field, Prototype, Value
from tramplab.vmlinux.open.debuginfo.btf import Btf, find

FILE = Path("vmlinuz")


def btf(made: Types) -> Btf:
    return Btf(made.built(), FILE)


def refused(call) -> str:
    """The sentence on types that contradict themselves, from behind its beginning on."""
    said = complaint(call)
    assert said.startswith("the BTF in vmlinuz is garbled (") and said.endswith("): get the file again, and compare its checksum.")
    assert ". " not in said
    return said[len("the BTF in vmlinuz is garbled (") : said.index("): get")]


def test_a_struct_has_the_members_of_its_anonymous_ones():
    """In order, bit fields where their first bit lies, arrays of arrays with all their elements."""
    read = btf(types()).struct("ftrace_ops")
    assert read == OPS and list(read.fields) == list(OPS.fields)


def test_what_there_is():
    read = btf(types())
    assert read.origin == "BTF"
    assert read.has("ftrace_ops") and read.has("ftrace_ops", "b") and not read.has("ftrace_ops", "c") and not read.has("b")


def test_a_struct_that_is_not_there():
    said = complaint(lambda: btf(types()).struct("ftrace_op"))
    assert said == "vmlinuz has no struct 'ftrace_op' (did you mean ftrace_ops?): give another name, or a kernel that has it."
    assert "did you mean" not in complaint(lambda: btf(types()).struct("nothing_like_it"))


def test_prototypes():
    t = types()
    number = 2
    pair, void = t.struct("pair", 16, [("a", number, 0), ("b", number, 64)]), 0
    either = t.struct("either", 8, [("a", number, 0), ("b", number, 0)], UNION)
    t.function("released", void, [t.add(TYPEDEF, "either_t", either)])
    t.function("nothing", void, [])
    t.function("all", t.add(TYPEDEF, "pair_t", pair), [t.add(CONST, "", pair), t.add(PTR, "", pair), t.int("__int128", 16)])
    t.function("printed", number, [number, 0])
    read = btf(t)
    assert read.prototype("bpf_fentry_test1") == Prototype("bpf_fentry_test1", (Value(4),), Value(4))
    assert read.prototype("nothing") == Prototype("nothing", (), Value(0))
    assert read.prototype("all") == Prototype("all", (Value(16, True), Value(8), Value(16)), Value(16, True))
    assert read.prototype("released") == Prototype("released", (Value(8, True, True),), Value(0))
    assert read.prototype("printed") == Prototype("printed", (Value(4),), Value(4))  # and an ellipsis
    assert read.prototype("pair") is None and read.prototype("bpf_fentry_test2") is None


def test_every_kind_of_type():
    """Each has its own length, so a struct behind them is found only if all of them are known."""
    t = Types()
    number = t.int("int", 4)
    small = t.add(ENUM, "small", 4, 2, struct.pack("<IiIi", t.name("A"), -1, t.name("B"), 7))
    large = t.add(ENUM64, "large", 8, 1, struct.pack("<III", t.name("C"), 1, 1))
    real = t.add(FLOAT, "double", 8)
    t.add(FWD, "later", 0)
    variable = t.add(VAR, "jiffies", number, more=bytes(4))
    t.add(DATASEC, ".data", 4, 1, struct.pack("<III", variable, 0, 4))
    t.add(DECL_TAG, "tag", variable, more=struct.pack("<i", -1))
    either = t.struct("either", 8, [("a", number, 0), ("d", real, 0)], UNION)
    through = number
    for kind in (CONST, VOLATILE, RESTRICT, TYPE_TAG, TYPEDEF):
        through = t.add(kind, "name" if kind in (TYPE_TAG, TYPEDEF) else "", through)
    call = t.add(PTR, "", t.add(PROTO, "", 0, 1, struct.pack("<II", 0, number)))
    named = [("small", small), ("large", large), ("real", real), ("through", through), ("call", call), ("either", either)]
    members = [(name, of, 64 * n) for n, (name, of) in enumerate(named)]
    t.struct("all", 56, [*members, ("three", t.array(through, 3), 384), ("more", t.array(number, 0), 448)])
    constants = {name: btf(t).enumerator(name) for name in ("A", "B", "C", "small", "D")}
    assert constants == {"A": (1 << 32) - 1, "B": 7, "C": 1 | 1 << 32, "small": None, "D": None}
    assert btf(t).struct("all").fields == {
        "small": Field(0, 4),
        "large": Field(8, 8),
        "real": Field(16, 8),
        "through": Field(24, 4),
        "call": Field(32, 8),
        "either": Field(40, 8),
        "three": Field(48, 12, 3),
        "more": Field(56, 0),
    }


def test_a_longer_header():
    """Whose further fields are not known here."""
    assert Btf(types().built(40), FILE).struct("ftrace_ops") == OPS


def test_the_first_of_several_structs_of_a_name():
    t = types()
    t.struct("ftrace_ops", 4, [("other", 2, 0)])
    assert btf(t).struct("ftrace_ops") == OPS


def test_it_is_found_among_other_bytes():
    small = Types()
    small.int("int", 4)
    magic = types().built()[:8]
    for front in (b"", b"\0", magic, magic * 5, small.built(), bytes(7), types().built()[:60]):
        for back in (b"", magic, small.built(), b"\xff" * 30):
            found = find(front + types().built() + back, FILE)
            assert found and found.struct("ftrace_ops") == OPS
    found = find(bytearray(types().built()), FILE)
    assert found and found.struct("ftrace_ops") == OPS


@pytest.mark.parametrize("data", [b"", b"\x9f\xeb\1\0", bytes(1000), random.Random(1).randbytes(9999), b"\x9f\xeb\1\0" * 9999])
def test_none_where_there_is_none(data):
    start = time.process_time()
    assert find(data, FILE) is None
    assert time.process_time() - start < 2


HEADERS = {
    "another magic number": (0, "<H", 0x9FEB),
    "another version": (2, "<B", 2),
    "flags": (3, "<B", 1),
    "a header of no length": (4, "<I", 0),
    "a header without end": (4, "<I", 0xFFFFFFFF),
    "types that lie elsewhere": (8, "<I", 0xFFFFFFF0),
    "types in the middle of a word": (8, "<I", 2),
    "types without end": (12, "<I", 0xFFFFFFFF),
    "no types": (12, "<I", 0),
    "names that lie elsewhere": (16, "<I", 0xFFFFFFF0),
    "names that begin in the types": (16, "<I", 8),
    "names without end": (20, "<I", 0xFFFFFFFF),
    "no names": (20, "<I", 0),
    "names cut in the last one": (20, "<I", 9),
}


@pytest.mark.parametrize("lie", HEADERS)
def test_a_header_that_lies(lie):
    at, form, value = HEADERS[lie]
    data = changed(types().built(), at, form, value)
    assert refused(lambda: Btf(data, FILE)) == "its header does not fit it"
    try:
        assert find(data, FILE) is None
    except TramplabError as e:
        assert "vmlinuz is garbled" in str(e)


def asked(read: Btf) -> None:
    """Whatever can be asked of what it names."""
    for name in ("ftrace_ops", "s"):
        if read.has(name):
            read.struct(name)
    for name in ("bpf_fentry_test1", "f"):
        read.prototype(name)


def loop(kind: int) -> Types:
    t = Types()
    t.add(kind, "t", 2)
    t.add(kind, "u", 1)
    t.struct("s", 8, [("a", 1, 0)])
    return t


def within_itself(kind: int) -> Types:
    t = Types()
    t.struct("s", 8, [("", 1, 0)], kind)
    if kind == UNION:
        t.struct("s", 8, [("", 1, 0)])
    return t


def doubled() -> Types:
    """Each struct has the next one twice: in all 2^60 of them."""
    t = Types()
    for n in range(60):
        t.struct("s" if n == 0 else "", 8, [("", n + 2, 0), ("", n + 2, 0)])
    t.struct("", 8, [])
    return t


def arrays(*elements: int) -> Types:
    t = Types()
    of = t.int("int", 4)
    for number in elements:
        of = t.array(of, number)
    t.struct("s", 8, [("a", of, 0)])
    return t


def of_itself() -> Types:
    t = Types()
    t.array(1, 3)
    t.struct("s", 8, [("a", 1, 0)])
    return t


def one(kind: int, what: int, members: int = 0, more: bytes = b"", name: str = "s") -> Types:
    t = Types()
    t.add(kind, name, what, members, more)
    return t


def wide(members: int) -> Types:
    t = Types()
    number = t.int("int", 4)
    t.struct("s", 8, [("a", number, 0)] * members)
    return t


LIES = {
    "a typedef of itself": (lambda: loop(TYPEDEF), "a type stands for itself"),
    "a const of itself": (lambda: loop(CONST), "a type stands for itself"),
    "a struct within itself": (lambda: within_itself(STRUCT), "a struct has no end"),
    "a union within itself": (lambda: within_itself(UNION), "a struct has no end"),
    "structs without end": (doubled, "a struct has no end"),
    "an array of itself": (of_itself, "an array has no end"),
    "an array of 2^32 elements": (lambda: arrays(0xFFFFFFFF), "an array has no end"),
    "arrays of arrays": (lambda: arrays(*[0xFFFF] * 50), "an array has no end"),
    "a hundred arrays of arrays": (lambda: arrays(*[1] * 120), "an array has no end"),
    "a type that is not there": (lambda: one(STRUCT, 8, 1, struct.pack("<III", 1, 99, 0)), "it refers to type 99, and there are 1"),
    "a function of nothing": (lambda: one(FUNC, 0, name="f"), "it refers to type 0, and there are 1"),
    "a function that is its own prototype": (lambda: one(FUNC, 1, name="f"), "the function f has no prototype"),
    "more members than there are": (lambda: one(STRUCT, 8, 0xFFFF), "its last type is cut short"),
    "a kind that is not known": (lambda: one(20, 8), "it has a type of kind 20, of which nothing is known here"),
    "no kind": (lambda: one(0, 8), "it has a type of kind 0, of which nothing is known here"),
    "an array that is cut short": (lambda: one(ARRAY, 0, more=bytes(8)), "its last type is cut short"),
    "a name beyond the names": (lambda: one(STRUCT, 8, 1, struct.pack("<III", 999, 0, 0)), "a name lies beyond the names"),
    "more members than any struct": (lambda: wide(0x10000), "a struct has no end"),
}


@pytest.mark.parametrize("lie", LIES)
def test_types_that_lie(lie):
    make, said = LIES[lie]
    start = time.process_time()
    assert refused(lambda: asked(btf(make()))) == said
    assert time.process_time() - start < 2


def test_cut_anywhere():
    data = types().built()
    for end in range(len(data)):
        assert find(data[:end], FILE) is None
        assert refused(lambda end=end: Btf(data[:end], FILE)) == "its header does not fit it"


def test_garbled_anywhere():
    """Either something is still read, or there is a sentence, and never anything else."""
    rng, data, other, whole = random.Random(3), types().built(), random.Random(2).randbytes(300), 0
    for n in range(500):
        damaged = list(DAMAGES.values())[n % len(DAMAGES)](data, other, rng)
        try:
            found = find(damaged, FILE)
            if found:
                asked(found)
                whole += 1
        except TramplabError as e:
            assert str(e).startswith("the BTF in vmlinuz is garbled") and "\n" not in str(e)
    assert 100 < whole < 300
