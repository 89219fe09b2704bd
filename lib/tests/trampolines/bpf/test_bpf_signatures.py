"""Where a signature puts its arguments is held to what a compiler does: functions with random signatures, programs on them."""

import functools
import random
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.abi import abi_calls
from tramplab import Bpf, Kernel, TramplabError
from tramplab.build.dwarf import Prototype, Value
from tramplab.build.toolchain import GUEST
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.trampolines.arguments import places
from tramplab.trampolines.bpf.signature import require, require_taken

COUNT = 40
#: Parameter types: C name, words, and how the words are read in C.
TYPES = {
    "long": ("{0}",),
    "unsigned long": ("(long){0}",),
    "void *": ("(long){0}",),
    "struct lab_one": ("{0}.first",),
    "struct lab_pair": ("{0}.first", "{0}.second"),
    "union lab_either": ("{0}.first",),
}
WEIGHTS = [2 * i + 3 for i in range(24)]


def signatures() -> list[list[str]]:
    """Parameter types of each function: all counts from none to twelve, structs everywhere."""
    chance = random.Random(12)
    return [[chance.choice([*TYPES, "struct lab_pair"]) for _ in range(i % 13)] for i in range(COUNT)]


def source() -> str:
    lines = ["struct lab_one { long first; };", "union lab_either { long first; void *second; };"]
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


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=settings.default.max_examples // 5)
@given(
    which=st.integers(0, COUNT - 1),
    words=st.lists(st.integers(0, (1 << 64) - 1), min_size=24, max_size=24),
    kinds=st.tuples(*[st.integers(0, 2)] * 3),
)
def test_any_signature(isa, guest, which, words, kinds):
    """The result is the function's, with and without programs, and the programs see every word of the arguments. Only x86-64 counts
    words, not arguments, and refuses more than twelve."""
    k, types, name = kernel(isa, guest), signatures()[which], f"drawn_{which}"
    assert [p.union for p in k.image.prototypes[name].parameters] == [t.startswith("union") for t in types]
    words = words[: words_of(types)]
    wanted = 1 + sum(w * weight for w, weight in zip(words, WEIGHTS, strict=False)) & (1 << 64) - 1
    f = k.function(name)
    assert k.call(f, *words).value == wanted
    fentry, fmod_ret, fexit = kinds
    if not sum(kinds):
        return
    request = Bpf(fentry=fentry, fmod_ret=fmod_ret, fexit=fexit, observe=True)
    if isa == "x86_64" and len(words) > 12:
        with pytest.raises(TramplabError, match=rf"of {name} are {len(words)} words; .* x86_64 takes at most 12 \(-ENOTSUPP\)"):
            k.attach(f, request)
        return
    k.machine.write_u64(k.image.address("lab_bpf_seen_count"), 0)
    with k.attached(f, request):
        assert k.call(f, *words).value == wanted
    layout = k.image.struct("lab_bpf_seen")
    at = k.image.address("lab_bpf_seen")
    for i in range(sum(kinds)):
        seen = at + i * layout.size
        assert k.machine.read_u64(seen + layout.fields["count"].offset) == len(words)
        room = layout.fields["words"]
        first = seen + room.offset
        assert [k.machine.read_u64(first + 8 * n) for n in range(len(words))] == words


@pytest.mark.parametrize("isa", ISAS)
def test_the_drawn_signatures_reach_every_rule(isa):
    """Among them are structs in registers, structs on the stack, and words both before and behind one that spills."""
    found = set()
    for types in signatures():
        where = places(ISAS[isa], [Value(8 * len(TYPES[t]), t.startswith(("struct", "union"))) for t in types])
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
        (Prototype("f", (Value(8), Value(24, True))), "argument 2 of f has 24 bytes by value; a BPF trampoline takes at most 16"),
        (Prototype("f", (Value(16),)), "argument 1 of f has 16 bytes; the lab knows where integers"),
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


WORD, PAIR, UNION = Value(8), Value(16, True), Value(8, True, True)
SEVENTH, NINTH = Prototype("f", (WORD,) * 7), Prototype("f", (WORD,) * 9)
IN_REGISTERS, ON_STACK = Prototype("f", (WORD, PAIR)), Prototype("f", (WORD,) * 7 + (PAIR, WORD))
#: What is asked for, why it is refused, and ISA -> first release that takes it, and the commit.
REFUSED = [
    (SEVENTH, "argument 7 is passed on the stack (-ENOTSUPP)", {"x86_64": ("v6.6", "473e3150e30a")}),
    (
        NINTH,
        "is passed on the stack (-ENOTSUPP)",
        {"x86_64": ("v6.6", "473e3150e30a"), "arm64": ("v6.16", "9014cf56f13d"), "riscv64": ("v6.11", "6801b0aef79d")},
    ),
    (IN_REGISTERS, "argument 2 is a struct by value (-EINVAL)", {"x86_64": ("v6.1", "720e6a435194")}),
    (IN_REGISTERS, "argument 2 is a struct by value (-ENOTSUPP)", {"arm64": ("v6.5", "90564f1e3dd6")}),
    (ON_STACK, "argument 8 is a struct on the stack (-ENOTSUPP)", {"arm64": ("v6.17", "dc704d0cfa43")}),
    (
        Prototype("f", (UNION,)),
        "argument 1 is a union by value (-EINVAL)",
        dict.fromkeys(ISAS, ("v6.18", "ccb4f5d91ec4")),
    ),
]


@pytest.mark.parametrize(
    "prototype, why, isa, since, commit",
    [(p, why, isa, *when) for p, why, isas in REFUSED for isa, when in isas.items()],
)
def test_a_release_refuses_what_its_trampolines_do_not_take(prototype, why, isa, since, commit):
    """The release before, in one sentence with the kernel's error and the commit that changed it; from there on all take it."""
    every = releases.known()
    before = every[every.index(since) - 1]
    with pytest.raises(TramplabError) as e:
        require_taken(prototype, releases.features(ISAS[isa], before, {}))
    assert str(e.value).startswith(f"{isa} {before} makes no BPF trampoline for f, whose ") and why in str(e.value)
    assert str(e.value).endswith(f"; releases since {since} do (commit {commit}).")
    for release in every[every.index(since) :]:
        require_taken(prototype, releases.features(ISAS[isa], release, {}))


def test_what_is_asked_for_is_refused_for_every_reason_in_turn():
    """arm64 and a struct that is on the stack: no struct at all, then none beside registers, then none there."""
    said = {}
    for release in ("v6.4", "v6.5", "v6.15", "v6.16"):
        with pytest.raises(TramplabError) as e:
            require_taken(ON_STACK, releases.features(ISAS["arm64"], release, {}))
        said[release] = str(e.value).partition("whose ")[2].partition(" (")[0]
    assert list(said.values()) == [
        "argument 8 is a struct by value",
        *["argument 8 is passed on the stack"] * 2,
        "argument 8 is a struct on the stack",
    ]


@pytest.mark.parametrize("isa, release", [("x86_64", "v6.4"), ("arm64", "v6.12"), ("riscv64", "v6.8")])
def test_a_refused_signature_leaves_nothing(isa, release):
    """Through Kernel.attach, and the same kernel takes it where an override says so."""
    k = Kernel(isa, release)
    f = k.function("twelve_args")
    before = k.machine.read(f.address, f.size)
    with pytest.raises(TramplabError, match=f"^{isa} {release} makes no BPF trampoline for twelve_args"):
        k.attach(f, Bpf(fexit=1))
    assert not k.slowpath.ops and k.machine.read(f.address, f.size) == before
    late = Kernel(isa, release, bpf_args="stack")
    with late.attached(late.function("twelve_args"), Bpf(fexit=1)):
        assert late.call("twelve_args", *range(12)).value == abi_calls.weigh(*range(12))


@pytest.mark.parametrize("name", ["struct_return", "big_struct_return"])
@pytest.mark.parametrize("isa", ISAS)
def test_a_function_that_returns_a_struct_is_refused_and_nothing_is_left(isa, name):
    k = Kernel(isa)
    f = k.function(name)
    before = k.machine.read(f.address, f.size)
    with pytest.raises(TramplabError, match=f"{name} returns .* by value"):
        k.attach(f, Bpf(fentry=1))
    assert not k.slowpath.ops and k.machine.read(f.address, f.size) == before
