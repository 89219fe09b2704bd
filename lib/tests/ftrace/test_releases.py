"""The table of releases: complete, free of contradictions, right where it can be checked; and overriding it by hand."""

import itertools

import pytest
import yaml

from tramplab import Direct, Kernel, Ops
from tramplab import isa as isas
from tramplab.base.errors import TramplabError
from tramplab.base.paths import data_file
from tramplab.ftrace import arch, meant, releases
from tramplab.isa.x86_64 import ENDBR64, NOP5
from tramplab.trampolines.kprobe import MODULES as kprobes

ISAS = ("x86_64", "arm64", "riscv64")
TABLE = yaml.safe_load(data_file("releases.yml").read_text("utf-8"))
every_isa = pytest.mark.parametrize("isa", ISAS)


def features(isa: str, release: str, **overrides) -> releases.Features:
    return releases.features(isas.get(isa), release, overrides)


def refusal(isa: str, release: str, **overrides) -> str:
    with pytest.raises(TramplabError) as e:
        features(isa, release, **overrides)
    return str(e.value)


def span(row: dict) -> tuple[tuple[int, int], tuple[int, int]]:
    """First and last release of an interval, both inclusive."""
    return (
        releases.parse(row["since"]) if "since" in row else (0, 0),
        releases.parse(row["until"]) if "until" in row else (99, 99),
    )


# --- The table itself


def test_known():
    """Known releases run without a gap from first to last."""
    known = releases.known()
    assert (known[0], known[-1]) == (TABLE["first"], TABLE["last"])
    assert list(known) == sorted(set(known), key=releases.parse)
    for a, b in itertools.pairwise(map(releases.parse, known)):
        assert b in {(a[0], a[1] + 1), (a[0] + 1, 0)}


# --- What a release has

#: The last release that can be asked for: what has not ended holds in it.
NOW = releases.known()[-1]
#: (ISA, feature, value): the releases that have it, from the histories of the merges.
HISTORY = [
    ("x86_64", "direct_in_ops", True, "v6.4", "v6.19"),
    ("x86_64", "ibt", True, "v6.2", NOW),
    ("x86_64", "trampoline_endbr", True, "v6.2", "v6.14"),
    ("x86_64", "per_ops_trampoline", True, "v5.17", NOW),
    ("x86_64", "direct", True, "v5.17", NOW),
    ("x86_64", "regs", True, "v5.17", NOW),
    ("x86_64", "args", True, "v5.17", NOW),
    ("x86_64", "counter_bits", 23, "v5.17", "v6.2"),
    ("x86_64", "counter_bits", 21, "v6.3", "v6.3"),
    ("riscv64", "counter_bits", 19, "v6.4", NOW),
    ("arm64", "site", "mov-bl", "v5.17", "v6.2"),
    ("arm64", "site", "literal-mov-bl", "v6.3", NOW),
    ("arm64", "regs", True, "v5.17", "v6.1"),
    ("arm64", "args", True, "v6.2", NOW),
    ("arm64", "call_ops", True, "v6.3", NOW),
    ("arm64", "direct", True, "v6.4", NOW),
    ("riscv64", "site", "detour16", "v5.17", "v6.2"),
    ("riscv64", "site", "detour8", "v6.3", "v6.15"),
    ("riscv64", "site", "literal-auipc-jalr", "v6.16", NOW),
    ("riscv64", "regs", True, "v5.17", "v6.9"),
    ("riscv64", "args", True, "v6.10", NOW),
    ("riscv64", "call_ops", True, "v6.16", NOW),
    ("riscv64", "direct", True, "v6.8", NOW),
    ("riscv64", "pt_regs_frame", True, "v6.8", "v6.9"),
    ("x86_64", "kretprobe_entry", "ftrace", "v5.17", NOW),
    ("arm64", "kretprobe_entry", "breakpoint", "v5.17", NOW),
    ("riscv64", "kretprobe_entry", "ftrace", "v5.17", "v6.9"),
    ("riscv64", "kretprobe_entry", False, "v6.10", "v6.15"),
    ("riscv64", "kretprobe_entry", "breakpoint", "v6.16", NOW),
    ("arm64", "live_patching", True, "v6.17", NOW),
    ("x86_64", "recursion_rcu_test", True, "v6.3", "v6.9"),
    ("arm64", "recursion_rcu_test", True, "v6.3", "v6.9"),
    ("riscv64", "recursion_rcu_test", True, "v6.8", "v6.9"),
]


@pytest.mark.parametrize(
    ("isa", "feature", "value", "first", "last"), HISTORY, ids=[f"{h[0]}-{h[1]}-{h[2]}" for h in HISTORY]
)
def test_history(isa, feature, value, first, last):
    """A feature has its value in exactly the releases that had it upstream: not one before, not one after."""
    having = [r for r in releases.known() if features(isa, r)[feature] == value]
    assert (having[0], having[-1]) == (first, last)
    assert having == [r for r in releases.known() if releases.parse(first) <= releases.parse(r) <= releases.parse(last)]


@pytest.mark.parametrize(
    ("isa", "feature"), [("x86_64", "call_ops"), ("arm64", "per_ops_trampoline"), ("riscv64", "per_ops_trampoline")]
)
def test_never(isa, feature):
    """What an ISA never had, no release has."""
    assert not any(features(isa, r)[feature] for r in releases.known())
    assert releases.history(isa, feature) == "never"


@pytest.mark.parametrize(
    ("isa", "feature", "when"),
    [
        ("arm64", "regs", "v5.5 to v6.1"),
        ("arm64", "direct", "since v6.4"),
        ("riscv64", "direct", "since v6.8"),
        ("riscv64", "regs", "v5.12 to v6.9"),
        ("x86_64", "direct_in_ops", "v6.4 to v6.19"),
        ("x86_64", "regs", "always"),
    ],
)
def test_history_in_words(isa, feature, when):
    """The words of error messages: one span where the feature was there without a break, whatever the sources."""
    assert releases.history(isa, feature) == when


@every_isa
def test_how_a_kretprobe_comes_in_follows_from_the_site(isa):
    """Through ftrace where that serves kprobes; else by a breakpoint at a function's first instruction, unless that is its site's
    record, or belongs to it: in every release, and with every feature overridden."""
    own = arch.of(isas.get(isa))
    changes = [{}, *({name: value} for name, value in own.CONSEQUENCES if name != "direct_jmp")]
    for r, overrides in itertools.product(releases.known(), changes):
        try:
            f = features(isa, r, **overrides)
        except TramplabError:  # never part of it
            continue
        site = own.site("f", 0, 0, f)
        breaks = kprobes[isa].place(site) == site.entry
        assert f["kretprobe_entry"] == ("ftrace" if f["kprobes_on_ftrace"] else "breakpoint" if breaks else False), (r, overrides)
        assert f["kretprobe_entry"] == meant.kretprobe_entry(f["site"], bool(f["kprobes_on_ftrace"])), (r, overrides)


def test_what_was_broken_is_said_of_the_releases_that_were():
    """By the histories of the commits; what no ISA has an entry of is refused with near matches."""
    uses = {isa: (*TABLE["broken"][isa], *TABLE["broken"]["common"]) for isa in ISAS}
    when = {(isa, use): [f.when for f in releases.faults(isa, use)] for isa in ISAS for use in uses[isa]}
    assert when == {
        ("x86_64", "direct_beside_ops"): ["v6.4 to v6.7"],
        ("x86_64", "live_patch_then_fexit"): ["v6.7 to v6.17"],
        ("x86_64", "live_patch_fentry_fexit"): ["v6.0 to v6.17"],
        ("arm64", "live_patch_then_fexit"): ["v6.17"],
        ("riscv64", "clang_arguments"): ["v6.10 to v6.15"],
        **{(isa, "fprobe_list_not_ended"): ["v6.14 to v7.0", "v7.1 to v7.2"] for isa in ISAS},
        **{(isa, "fprobe_without_rcu"): ["v6.14 to v7.2"] for isa in ISAS},
        **{(isa, "kprobe_event_race"): ["v5.17 to v6.17"] for isa in ISAS},
        ("riscv64", "regs_sp_of_trampoline"): ["v5.17 to v6.9"],
    }
    assert {(f.built, use) for isa, use in when for f in releases.faults(isa, use) if f.built} == {
        ("fprobe_list_end", "fprobe_list_not_ended"),
        ("direct_without_regs", "direct_beside_ops"),
        ("direct_hash_kept", "live_patch_then_fexit"),
        ("direct_modified_unasked", "live_patch_fentry_fexit"),
    }
    for release, broken in (("v6.3", False), ("v6.4", True), ("v6.7", True), ("v6.8", False)):
        assert bool(releases.broken("x86_64", release, "direct_beside_ops")) == broken
        assert releases.broken("arm64", release, "direct_beside_ops") is None
    assert str(releases.broken("x86_64", "v6.4", "direct_beside_ops")).endswith(
        "(broken by 60c8971899f3, fixed by a8b9cf62ade1, bdbddb109c75)"
    )
    for isa in ISAS:  # nothing is broken before it is there
        for use in ("live_patch_then_fexit", *(["live_patch_fentry_fexit"] if isa == "x86_64" else [])):
            for r in releases.known():
                has = features(isa, r)
                assert not releases.broken(isa, r, use) or (has["live_patching"] and has["direct"] and has["direct_shares"])
    with pytest.raises(TramplabError, match="unknown use that was broken 'direct_besides_ops'; did you mean direct_beside_ops"):
        releases.faults("arm64", "direct_besides_ops")


@every_isa
def test_features_agree_with_each_other(isa):
    """Facts of different rows that depend on one another hold together in every release."""
    for r in releases.known():
        f = features(isa, r)
        assert f["ops"] and f["site"]
        assert f["args"] or f["regs"], r  # some ftrace_caller exists
        if isa != "x86_64":
            assert not (f["args"] and f["regs"]), r  # args came in regs' place
        assert bool(f["call_ops"]) == str(f["site"]).startswith("literal"), r
        assert not f["pt_regs_frame"] or f["regs"], r
        assert not f["trampoline_endbr"] or f["ibt"], r
        # the lowest flag that exists lies right above the counter
        assert f["counter_bits"] == (23 if releases.parse(r) < (6, 3) else 21 if r == "v6.3" else 19)


@every_isa
@pytest.mark.parametrize("code", ["modules", "bpf"])
def test_every_release_says_what_its_sites_reach(isa, code):
    """Without a gap or an overlap; riscv64's AUIPC is fixed from the release on in which a site is no pair any more."""
    rows = TABLE["reach"][isa][code]
    for r in releases.known():
        assert len([row for row in rows if span(row)[0] <= releases.parse(r) <= span(row)[1]]) == 1
        found = releases.reach(isa, r, code).value
        assert found in {"near", "far", "either"}
        assert (found == "far") == (features(isa, r)["site"] == "literal-auipc-jalr")
        assert found == "near" or isa != "x86_64"
    with pytest.raises(TramplabError, match="unknown kind of code 'module'; did you mean modules"):
        releases.reach(isa, NOW, "module")


@every_isa
def test_who_makes_a_pt_regs_came_with_fprobes_on_the_graph_tracer(isa):
    """ftrace_partial_regs() and perf's fill are in every release from v6.14 on, once; a callchain starts somewhere in each."""
    for r in releases.known():
        for what, rows in TABLE["registers"][isa].items():
            holding = [row for row in rows if span(row)[0] <= releases.parse(r) <= span(row)[1]]
            assert len(holding) == (what == "callchain" or releases.parse(r) >= (6, 14))
            if holding:
                assert releases.registers(isa, r, what).value == holding[0]["value"]
    with pytest.raises(TramplabError, match=r"^\w+ v6.12 has no such use of registers \(perf\); it came in v6.14\.$"):
        releases.registers(isa, "v6.12", "perf")
    with pytest.raises(TramplabError, match="unknown use of registers 'partia'; did you mean partial"):
        releases.registers(isa, NOW, "partia")


def builds() -> list:
    """One release for every guest that the table can ask for."""
    found = {}
    for isa, r in itertools.product(ISAS, releases.known()):
        f = features(isa, r)
        found.setdefault((isa, arch.of(isas.get(isa)).config(f), bool(f["direct"]), bool(f["regs"])), (isa, r))
    return list(found.values())


@pytest.mark.parametrize(("isa", "release"), builds())
def test_every_build_boots_and_traces(isa, release):
    """Whatever the table gives for any known release is a guest that builds and runs its hooks."""
    k = Kernel(isa, release, meter="count")
    f = k.function("three_args")
    hooks = [Ops(), *([Ops(save="regs")] if k.features["regs"] else [])]
    with k.attached(f, *hooks):
        run = k.call(f, 1, 2, 3)
    assert (run.value, run.hits) == (34, (1,) * len(hooks))
    assert str(k) == f"{isa} {release}"
    assert k.call(f, 1, 2, 3).counts.by_component["callback"].instructions == 0


# --- Overriding


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


def test_a_release_that_changes_nothing_is_shown_and_not_distinct(monkeypatch):
    """What is named after the one before stays so named."""
    assert releases.distinct() == releases.shown() and releases.NEWEST == releases.LATEST
    monkeypatch.setattr(releases, "shown", lambda: ("v6.4", "v6.12", "v6.13"))
    monkeypatch.setattr(releases, "stand_in", releases.stand_in.__wrapped__)
    assert releases.distinct.__wrapped__() == ("v6.4", "v6.12")
