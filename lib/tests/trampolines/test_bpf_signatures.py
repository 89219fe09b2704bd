"""Where a signature puts its arguments is held to what a compiler does: functions with random signatures, programs on them."""

import functools
import random
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tramplab import Bpf, Kernel, TramplabError
from tramplab.build.dwarf import Prototype, Value
from tramplab.build.toolchain import GUEST
from tramplab.isa import ISAS
from tramplab.trampolines.arguments import places
from tramplab.trampolines.bpf.signature import require

COUNT = 40
#: Parameter types: C name, words, and how the words are read in C.
TYPES = {
    "long": ("{0}",),
    "unsigned long": ("(long){0}",),
    "void *": ("(long){0}",),
    "struct lab_one": ("{0}.first",),
    "struct lab_pair": ("{0}.first", "{0}.second"),
}
WEIGHTS = [2 * i + 3 for i in range(24)]


def signatures() -> list[list[str]]:
    """Parameter types of each function: all counts from none to twelve, structs everywhere."""
    chance = random.Random(12)
    return [[chance.choice([*TYPES, "struct lab_pair"]) for _ in range(i % 13)] for i in range(COUNT)]


def source() -> str:
    lines = ["struct lab_one { long first; };"]
    for i, types in enumerate(signatures()):
        names = [f"a{n}" for n in range(len(types))]
        taken = ", ".join(f"{t} {n}" for t, n in zip(types, names, strict=False)) or "void"
        words = [w.format(n) for t, n in zip(types, names, strict=False) for w in TYPES[t]]
        terms = "".join(f" + {w} * {weight}" for w, weight in zip(words, WEIGHTS, strict=False))
        lines.append(f"long drawn_{i}({taken}) {{ return 1{terms}; }}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def guest(tmp_path_factory):
    """The lab kernel's sources with the drawn functions added."""
    folder = shutil.copytree(GUEST, tmp_path_factory.mktemp("guest") / "guest")
    with (folder / "functions.c").open("a", encoding="utf-8") as f:
        f.write(source())
    return folder


@functools.lru_cache(maxsize=3)
def kernel(isa, guest) -> Kernel:
    return Kernel(isa, guest=guest, meter="count")


def words_of(types: list[str]) -> int:
    return sum(len(TYPES[t]) for t in types)


def positional(isa, where: list, words: list[int]) -> list[int]:
    """The words as Kernel.call takes them: one for each argument register, then those on the stack."""
    flat = [p for places in where for p in places]
    stacked = [p for p in flat if isinstance(p, int)]
    out = [0] * (len(isa.args) + len(stacked))
    for place, word in zip(flat, words, strict=True):
        out[isa.args.index(place) if isinstance(place, str) else len(isa.args) + place] = word
    return out


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=settings.default.max_examples // 5)
@given(
    which=st.integers(0, COUNT - 1),
    words=st.lists(st.integers(0, (1 << 64) - 1), min_size=24, max_size=24),
    kinds=st.tuples(*[st.integers(0, 2)] * 3),
)
def test_any_signature(isa, guest, which, words, kinds):
    """The result is the function's, with and without programs, and the programs see every word of the arguments."""
    k, types, name = kernel(isa, guest), signatures()[which], f"drawn_{which}"
    prototype = k.image.prototypes[name]
    where = places(ISAS[isa], prototype.parameters)
    words = words[: words_of(types)]
    arguments = positional(ISAS[isa], where, words)
    wanted = 1 + sum(w * weight for w, weight in zip(words, WEIGHTS, strict=False)) & (1 << 64) - 1
    f = k.function(name)
    assert k.call(f, *arguments).value == wanted
    fentry, fmod_ret, fexit = kinds
    if not sum(kinds):
        return
    k.machine.write_u64(k.image.address("lab_bpf_seen_count"), 0)
    with k.attached(f, Bpf(fentry=fentry, fmod_ret=fmod_ret, fexit=fexit, observe=True)):
        assert k.call(f, *arguments).value == wanted
    layout = k.image.struct("lab_bpf_seen")
    at = k.image.address("lab_bpf_seen")
    for i in range(sum(kinds)):
        seen = at + i * layout.size
        assert k.machine.read_u64(seen + layout.fields["count"].offset) == len(words)
        room = layout.fields["words"]
        shown = min(len(words), room.elements)
        first = seen + room.offset
        assert [k.machine.read_u64(first + 8 * n) for n in range(shown)] == words[:shown]


@pytest.mark.parametrize("isa", ISAS)
def test_the_drawn_signatures_reach_every_rule(isa):
    """Among them are structs in registers, structs on the stack, and words both before and behind one that spills."""
    found = set()
    for types in signatures():
        where = places(ISAS[isa], [Value(8 * len(TYPES[t]), t.startswith("struct")) for t in types])
        pairs = [(i, p) for i, p in enumerate(where) if len(p) == 2]
        for i, p in pairs:
            kinds = "".join("r" if isinstance(w, str) else "s" for w in p)
            found.add(kinds)
            if kinds != "rr":
                found |= {f"{kinds} then {'r' if isinstance(w[0], str) else 's'}" for w in where[i + 1 :]}
    wanted = {
        "x86_64": {"rr", "ss", "ss then r", "ss then s"},
        "arm64": {"rr", "ss", "ss then s"},
        "riscv64": {"rr", "rs", "ss", "rs then s", "ss then s"},
    }
    assert found == wanted[isa]


@pytest.mark.parametrize(
    "prototype, message",
    [
        (Prototype("f", (Value(8),) * 13), "f takes 13 arguments; a BPF trampoline can be made for at most 12."),
        (Prototype("f", (Value(8), Value(24, True))), "argument 2 of f has 24 bytes; the lab knows where integers"),
        (Prototype("f", (Value(16),)), "argument 1 of f has 16 bytes"),
        (
            Prototype("f", (), Value(16, True)),
            "f returns 16 bytes by value; a BPF program is attached only to functions",
        ),
    ],
)
def test_what_cannot_be_passed_is_refused(prototype, message):
    with pytest.raises(TramplabError) as e:
        require(prototype)
    assert str(e.value).startswith(message)


@pytest.mark.parametrize("name", ["struct_return", "big_struct_return"])
@pytest.mark.parametrize("isa", ISAS)
def test_a_function_that_returns_a_struct_is_refused_and_nothing_is_left(isa, name):
    k = Kernel(isa)
    f = k.function(name)
    before = k.machine.read(f.address, f.size)
    with pytest.raises(TramplabError, match=f"{name} returns .* by value"):
        k.attach(f, Bpf(fentry=1))
    assert not k.slowpath.ops and k.machine.read(f.address, f.size) == before
