"""Overriding by hand what a release has: what comes along is shown, and what cannot be is refused."""

import pytest
import yaml

from tramplab import Direct, Kernel, Ops
from tramplab import isa as isas
from tramplab.base.errors import TramplabError
from tramplab.base.paths import data_file
from tramplab.ftrace import releases
from tramplab.isa.x86_64 import ENDBR64, NOP5

every_isa = pytest.mark.parametrize("isa", isas.ISAS)
TABLE = yaml.safe_load(data_file("releases.yml").read_text("utf-8"))


def features(isa: str, release: str, **overrides) -> releases.Features:
    return releases.features(isas.get(isa), release, overrides)


def refusal(isa: str, release: str, **overrides) -> str:
    with pytest.raises(TramplabError) as e:
        features(isa, release, **overrides)
    return str(e.value)


def site_bytes(k: Kernel, name: str, size: int) -> bytes:
    return k.machine.read(k.function(name).address, size)


def traced(k: Kernel, *requests) -> tuple[int, tuple[int, ...]]:
    """Result and hits of one call of three_args(1, 2, 3), and a sanity check that nothing stays attached."""
    f = k.function("three_args")
    with k.attached(f, *requests):
        run = k.call(f, 1, 2, 3)
    assert k.call(f, 1, 2, 3).hits == ()
    return run.value, run.hits


def test_arm64_without_call_ops():
    """v6.16 with CALL_OPS off is the two-instruction site without a literal, a call patched inside ftrace_caller, and
    no direct calls, as the kernel's configuration has it; the rest of v6.16 stays."""
    k, plain = Kernel("arm64", "v6.16", call_ops=False), Kernel("arm64", "v6.16")
    assert k.features["site"] == "mov-bl" and not k.features["direct"] and k.features["args"] and not k.features["regs"]
    assert site_bytes(k, "three_args", 8).hex() == "e9031eaa1f2003d5"
    assert k.slowpath.records["three_args"].site.literal is None
    assert "ftrace_call" in k.image.symbols and "ftrace_call" not in plain.image.symbols
    assert traced(k, Ops()) == (34, (1,)) and traced(k, Ops(), Ops()) == (34, (1, 1))
    # one ops of a module goes through the list function; with CALL_OPS it does not
    with k.attached(k.function("three_args"), Ops()):
        assert k.call("three_args", 1, 2, 3).counts.by_component["core"].instructions > 0
    with plain.attached(plain.function("three_args"), Ops()):
        assert plain.call("three_args", 1, 2, 3).counts.by_component["core"].instructions == 0
    with pytest.raises(TramplabError, match="direct"):
        k.attach(k.function("three_args"), Direct())


def test_riscv64_without_call_ops():
    """v6.16 with CALL_OPS off keeps the fixed AUIPC, has no literal, and calls through ftrace_call_dest in memory."""
    k = Kernel("riscv64", "v6.16", call_ops=False)
    assert k.features["site"] == "auipc-jalr" and not k.features["direct"]
    for name in k.functions:
        first, second = (int.from_bytes(site_bytes(k, name, 8)[i : i + 4], "little") for i in (0, 4))
        assert first & 0xFFF == 0x297 and second == 0x13
        assert k.slowpath.records[name].site.literal is None
        assert k.function(name).address % 4 == 0
    dest = k.image.address("ftrace_call_dest")
    assert k.machine.read_u64(dest) == k.image.address("ftrace_stub")
    with k.attached(k.function("three_args"), Ops()):
        assert k.machine.read_u64(dest) == k.image.address("ftrace_ops_list_func")
    with k.attached(k.function("three_args"), Ops(dynamic=False)) as (ops,):
        assert k.machine.read_u64(dest) == k.image.address("lab_callback")
        assert k.machine.read_u64(k.image.address("function_trace_op")) == ops.address
    assert k.machine.read_u64(dest) == k.image.address("ftrace_stub")
    assert traced(k, Ops()) == (34, (1,)) and traced(k, Ops(), Ops(dynamic=False)) == (34, (1, 1))
    with pytest.raises(TramplabError, match="direct"):
        k.attach(k.function("three_args"), Direct())


@pytest.mark.parametrize("release", releases.shown())
def test_x86_64_with_call_ops(release):
    """Hypothetical: eight bytes before every function hold the ops, with a landing pad behind them and without; nothing of the
    common trampolines is patched, and no ops has a copy of one."""
    k = Kernel("x86_64", release, call_ops=True)
    assert k.features["site"] == "literal-nop5" and not k.features["per_ops_trampoline"]
    assert not {"ftrace_call", "ftrace_regs_call"} & set(k.image.symbols)
    nobody, pad = k.image.address("ftrace_nop_ops"), ENDBR64 if k.features["ibt"] else b""
    for name in k.functions:
        site = k.slowpath.records[name].site
        assert site.literal == site.entry - 8 and site.literal % 8 == 0 and site.ip == site.entry + len(pad)
        assert k.machine.read(site.entry, len(pad) + 5) == pad + NOP5 and k.machine.read_u64(site.literal) == nobody
    site = k.slowpath.records["three_args"].site
    with k.attached(k.function("three_args"), Ops(save="regs")) as (only,):
        assert k.machine.read_u64(site.literal) == only.address and not only.trampoline
        with k.attached(k.function("three_args"), Ops()):
            assert k.machine.read_u64(site.literal) == k.image.address("ftrace_list_ops")
        assert k.machine.read_u64(site.literal) == only.address
    assert k.machine.read_u64(site.literal) == nobody and k.machine.read(site.ip, 5) == NOP5
    assert traced(k, Ops()) == (34, (1,)) and traced(k, Ops(), Ops(save="regs")) == (34, (1, 1))


#: Overrides of every kind: forwards and backwards in history, on each ISA.
OVERRIDES = [
    ("x86_64", "v6.12", {"frame_pointer": True}),
    ("x86_64", "v6.12", {"per_ops_trampoline": False}),
    ("x86_64", "v5.17", {"call_ops": True}),
    ("x86_64", releases.LATEST, {"call_ops": True}),
    ("x86_64", "v6.12", {"ibt": False, "trampoline_endbr": False}),
    ("arm64", "v6.16", {"call_ops": False}),
    ("arm64", "v6.1", {"call_ops": True}),
    ("arm64", "v6.16", {"regs": True}),
    ("arm64", "v6.1", {"direct": True}),
    ("riscv64", "v6.16", {"call_ops": False}),
    ("riscv64", "v6.12", {"call_ops": True}),
    ("riscv64", "v6.12", {"regs": True}),
    ("riscv64", "v6.1", {"args": True}),
]


@pytest.mark.parametrize(
    ("isa", "release", "overrides"), OVERRIDES, ids=[f"{i}-{r}-{'-'.join(o)}" for i, r, o in OVERRIDES]
)
def test_override_works_and_is_shown(isa, release, overrides):
    """An overridden kernel builds, its ops run, and it says what was asked for wherever it is shown."""
    k = Kernel(isa, release, meter="count", **overrides)
    assert str(k).startswith(f"{isa} {release} with ")
    for name, value in overrides.items():
        assert k.features[name] == value and f"{name}={value}" in str(k)
    # everything that came along is shown too: nothing differs from upstream silently
    upstream = features(isa, release)
    differing = {n for n in {*k.features.values, *upstream.values} if k.features[n] != upstream[n]}
    assert differing == {n for n, v in k.features.overridden.items() if v != upstream[n]}
    assert traced(k, Ops()) == (34, (1,)) and traced(k, Ops(), Ops()) == (34, (1, 1))
    if k.features["direct"]:
        assert traced(k, Direct(), Ops())[0] == 34
    assert k.call("three_args", 1, 2, 3).config == str(k)


@every_isa
def test_upstream_value_is_no_override(isa):
    """Asking for what the release has anyway changes nothing and is not shown."""
    for release in releases.shown():
        plain = features(isa, release)
        asked = features(isa, release, regs=bool(plain["regs"]), direct=bool(plain["direct"]))
        assert str(asked) == f"{isa} {release}" and asked.values == plain.values


@pytest.mark.parametrize(
    ("isa", "overrides"),
    [
        ("x86_64", {"graph_slot": True}),
        ("arm64", {"per_ops_trampoline": True}),
        ("riscv64", {"ibt": True}),
        ("arm64", {"pt_regs_frame": True}),
    ],
    ids=["x86_64-graph_slot", "arm64-per_ops", "riscv64-ibt", "arm64-pt_regs_frame"],
)
def test_override_of_what_was_never_built(isa, overrides):
    """A feature that another ISA has cannot be switched on here: the lab has no code for it, and says what it has."""
    (name,) = overrides
    message = refusal(isa, "v6.16", **overrides)
    assert name in message and isa in message and "never" in message
    listed = message.split("it has ")[1].rstrip(".").split(", ")
    assert set(listed) == set(TABLE[isa]) | set(TABLE["common"]) | set(TABLE["hypothetical"].get(isa, ()))


def test_without_regs_caller_x86_has_no_direct_exit():
    """On x86-64 a shared direct call leaves through ftrace_regs_caller; without that one it must not get lost."""
    k = Kernel("x86_64", "v6.12", regs=False, meter="count")
    f, hits = k.function("one_arg"), k.image.address("lab_direct_hits")
    if not k.features["direct"]:
        with pytest.raises(TramplabError, match="direct"):
            k.attach(f, Direct())
        return
    with k.attached(f, Direct(), Ops()):
        assert k.call(f, 1).value == 3
        assert k.machine.read_u64(hits) == 1


@pytest.mark.parametrize("isa", ["arm64", "riscv64"])
def test_a_site_cannot_be_chosen_by_itself(isa):
    """Its shape follows from what the kernel has; another one under the same trampoline would crash or go unseen."""
    for shape in ("mov-lb", "mov-bl", "detour8"):
        message = refusal(isa, "v6.16", site=shape)
        assert shape in message and "call_ops" in message and str(features(isa, "v6.16")["site"]) in message


@pytest.mark.parametrize(
    ("isa", "overrides"),
    [
        ("arm64", {"call_ops": False, "direct": True}),
        ("arm64", {"regs": True, "args": True}),
        ("riscv64", {"call_ops": True, "regs": True}),
        ("x86_64", {"regs": False, "direct": True}),
    ],
)
def test_contradicting_overrides_are_refused(isa, overrides):
    """Neither of two overrides that exclude each other is dropped silently."""
    message = refusal(isa, "v6.1", **overrides) if isa == "riscv64" else refusal(isa, "v6.16", **overrides)
    assert "contradict" in message and all(f"{n}={v}" in message for n, v in overrides.items())


def test_value_of_no_release():
    """A value no release has is refused where it is asked for."""
    assert "'maybe'" in refusal("arm64", "v6.16", call_ops="maybe")
