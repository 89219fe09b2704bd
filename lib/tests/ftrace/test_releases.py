"""The table of releases: complete, free of contradictions, right where it can be checked."""

import itertools

import pytest
import yaml

from tramplab import Kernel, Ops
from tramplab import isa as isas
from tramplab.base.errors import TramplabError
from tramplab.base.paths import data_file
from tramplab.ftrace import arch, meant, releases
from tramplab.trampolines.kprobe import MODULES as kprobes

ISAS = ("x86_64", "arm64", "riscv64")
TABLE = yaml.safe_load(data_file("releases.yml").read_text("utf-8"))
every_isa = pytest.mark.parametrize("isa", ISAS)


def features(isa: str, release: str, **overrides) -> releases.Features:
    return releases.features(isas.get(isa), release, overrides)


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


def test_a_release_that_changes_nothing_is_shown_and_not_distinct(monkeypatch):
    """What is named after the one before stays so named."""
    assert releases.distinct() == releases.shown() and releases.NEWEST == releases.LATEST
    monkeypatch.setattr(releases, "shown", lambda: ("v6.4", "v6.12", "v6.13"))
    monkeypatch.setattr(releases, "stand_in", releases.stand_in.__wrapped__)
    assert releases.distinct.__wrapped__() == ("v6.4", "v6.12")
