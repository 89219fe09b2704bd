"""The studies of chapter "From counts to time" that need no clock: made-up times in, known ranks and errors out."""

import json

import pytest

from tramplab.analyse import cycles
from tramplab.analyse.cores import cores
from tramplab.errors import TramplabError
from tramplab.ftrace import hooks, releases, shapes
from tramplab.isa import ISAS
from tramplab.native import Result, kept
from tramplab.publish.table import text_table
from tramplab.studies import native_hooks, native_shapes, return_stack


@pytest.fixture(scope="module")
def returns():
    return return_stack.rows()


def test_every_hook_of_every_release_is_replayed(returns):
    for isa in ISAS:
        for release in releases.shown():
            features = releases.features(ISAS[isa], release, {})
            had = sum(features[h.needs] * (1 + h.counts) for h in hooks.HOOKS.values())
            part = returns[(returns["isa"] == isa) & (returns["release"] == release)]
            assert len(part) == had + 2 * (release == releases.shown()[-1])


def test_only_the_way_back_differs(returns):
    """A trampoline that jumps back makes the function's return miss, and every one above it."""
    for isa, part in returns[returns["hook"].isin(return_stack.SHAPES)].groupby("isa"):
        both = part.set_index("hook")
        assert tuple(both.loc["return back", ["own", "outer"]]) == (0, 0), isa
        assert tuple(both.loc["jump back", ["own", "outer"]]) == (1, return_stack.CALLERS), isa
        assert both.loc["jump back", "first"].startswith(return_stack.FUNCTION)


def test_the_shared_direct_call_of_x86(returns):
    """Commit 36b64f101219, in v6.2, stopped it from shifting the stack; the PUSH and RET themselves still miss."""
    shared = returns[(returns["isa"] == "x86_64") & returns["hook"].str.startswith("direct+ops")]
    early = shared["release"].isin(["v5.17", "v6.1"])
    assert set(zip(shared[early]["own"], shared[early]["outer"], strict=True)) == {(3, return_stack.CALLERS)}
    assert set(zip(shared[~early]["own"], shared[~early]["outer"], strict=True)) == {(1, 0)}
    numbers = return_stack.numbers(returns)
    assert (numbers["shared-old-release"], numbers["shared-new-release"]) == ("v6.1", "v6.4")
    assert (numbers["shared-old-own"], numbers["shared-new-own"]) == (3, 1)


def test_what_misses_returns_is_the_shared_direct_call_and_trampolines_that_call_the_function(returns):
    """On x86-64 the latter end in v6.19, between two releases shown, where the site jumps to them."""
    real = returns[~returns["hook"].isin([*return_stack.SHAPES])]
    wrong = real[real["own"] + real["outer"] > 0]
    assert set(wrong["hook"].str.split().str[0]) == {"direct+ops", "bpf-fexit", "bpf-fmodret"}
    calling = real[real["hook"].str.contains("fexit|fmodret")]
    found = set(zip(calling["isa"], calling["release"] == "v7.2", calling["own"], calling["outer"], strict=True))
    assert found == {
        ("x86_64", False, 1, return_stack.CALLERS),
        ("x86_64", True, 0, 0),
        *(
            (isa, last, own, return_stack.CALLERS)
            for isa, own in (("arm64", 2), ("riscv64", 1))
            for last in (False, True)
        ),
    }
    numbers = return_stack.numbers(returns)
    assert numbers["wrong"] == len(wrong)
    assert (numbers["fexit-old-release"], numbers["fexit-new-release"]) == ("v6.16", "v7.2")
    assert (numbers["arm64-fexit-own"], numbers["riscv64-fexit-own"], numbers["x86_64-fexit-own"]) == (2, 1, 0)


# -- native times, made up


def result(isa: str, times: dict[str, float], release: str = "v7.2", **more) -> Result:
    """Times over the unhooked call, in nanoseconds, of a machine with a clock of 2 GHz."""
    rows = [{"hook": "none", "ns_min": 1.0, "ns_over": 0.0}]
    direct = times.get("direct")
    rows += [
        {"hook": h, "ns_min": 1 + t, "ns_over": t, "cycles_over": 2 * t, "ratio_direct": direct and t / direct, **more}
        for h, t in times.items()
    ]
    return Result(tuple(rows), (), (), {"isa": isa, "release": release, "arguments": 1, "cpu": "made up"})


@pytest.fixture(scope="module", params=ISAS)
def shaped(request):
    """A third of the shapes, with times that are exactly half of what the first core of an ISA is estimated to take."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "GRID", shapes.GRID[::3])
        base, runs = native_shapes._runs(request.param)
        core = next(c for c in cores().values() if c.isa == request.param)
        times = {str(s): cycles.estimate(run, base, core).mid / 2 for s, run in runs.items()}
        frames = [native_shapes.rows(result(request.param, times, **more)) for more in ({"branch_misses": 0.25}, {})]
        yield core.name, times, *frames


def test_a_model_that_is_right_but_for_a_factor_has_no_error(shaped):
    core, times, frame, _ = shaped
    table = native_shapes.ranks(frame).set_index("estimator")
    assert (table.loc[core, "all_rank"], table.loc[core, "all_error"]) == (1, 0)
    assert (table.loc[core, "balanced_rank"], table.loc[core, "unbalanced_error"]) == (1, 0)
    assert table.loc["instructions", "all_rank"] < 1 and table.loc["instructions", "all_error"] > 5
    numbers = native_shapes.numbers(frame)
    assert numbers["own"] == core and numbers["own-rank"] == numbers[f"{core}-rank"] == "1.00"
    assert numbers["shapes"] == len(times) > 10
    part = frame[frame["core"] == core]
    assert (part["estimated"] - part["measured"]).abs().max() <= 0.01
    assert (part["low"] <= part["estimated"]).all() and (part["estimated"] <= part["high"]).all()


def test_a_shape_without_a_time_is_left_out(shaped):
    _, times, frame, _ = shaped
    isa, first, second = frame["isa"].iloc[0], *list(times)[:2]
    fewer = native_shapes.rows(result(isa, {s: t for s, t in times.items() if s != first} | {second: 0.0}))
    all_of_them, left = (set("shape-" + f["shape"] + "-" + f["way"]) for f in (frame, fewer))
    assert all_of_them == set(times) and left == set(times) - {first, second}


def test_misses_are_compared_with_the_counters_where_there_are_any(shaped):
    _, _, frame, uncounted = shaped
    assert set(frame[frame["way"] == "balanced"]["missed"]) == {0}
    assert set(frame[frame["way"] == "unbalanced"]["missed"]) == {1}
    assert native_shapes.numbers(frame)["missed"] == "differs from the replay by at most 0.750 per call"
    assert native_shapes.numbers(uncounted)["missed"] == "cannot be read here"


@pytest.mark.parametrize(
    "virtualised, why, kind",
    [
        ("no", "", "no virtual machine, the one that built this page"),
        ("KVM", "", "a virtual machine, the one that built this page"),
        ("KVM", "native runs need Linux.", "a virtual machine; saved, as native runs need Linux"),
    ],
)
def test_the_page_says_whose_times_they_are(monkeypatch, virtualised, why, kind):
    facts = {"cpu": "made up", "date": "2026-11-21 08:50 UTC", "virtualised": virtualised}
    timed = Result(({"hook": "none"},), ("one " * 30, "two"), (), facts)
    monkeypatch.setattr(native_shapes, "shown", lambda kind: (timed, why))
    assert native_shapes.circumstances() == {"cpu": "made up", "date": "2026-11-21", "kind": kind}
    lines = native_shapes.cautions().splitlines()
    assert len(lines) == 3 and lines[2] == "warning: two" and max(map(len, lines)) <= 68


def test_shapes_are_drawn_and_printed(shaped):
    frame = shaped[2]
    (figure,) = native_shapes.FIGURES
    assert len(figure.chart(figure.rows(frame)).rows) == len(frame)
    assert max(map(len, text_table(figure.table(frame), 66, split="isa").splitlines())) <= 66


def test_hooks_of_several_machines_stand_side_by_side():
    times = {"ops": 8.0, "ops:2": 30.0, "direct": 4.0}
    frame = native_hooks.rows({"here": result("x86_64", times), "a-board": result("arm64", {"direct": 5.0})})
    table = text_table(native_hooks.table(frame), 66, split="isa")
    assert "x86_64, here, model of zen3\n" in table and "arm64, a-board, model of cortex-a72\n" in table
    assert set(frame["machine"]) == {"here", "a-board"} and set(frame["hook"]) == set(times)
    numbers = native_hooks.numbers(frame)
    assert (numbers["ops-ns"], numbers["ops-ratio"], numbers["ops-cycles"], numbers["direct-ratio"]) == (
        "8",
        "2",
        "16",
        "1",
    )


def test_saved_times_of_the_call_and_of_the_jump_are_compared():
    """For the hooks that both have; the replay's mispredicted return goes with the call."""
    call = result("x86_64", {"bpf-fexit": 18.0, "direct": 4.0}, "v6.18", branch_misses=1.01)
    jump = result("x86_64", {"bpf-fexit": 12.0}, "v6.19")
    numbers = native_hooks.jumped(native_hooks.rows({"a": call, "b": jump}))
    assert {name.partition("-call")[0].partition("-jump")[0] for name in numbers} == {"bpf-fexit"}
    assert numbers["bpf-fexit-call-over-jump"] == "1.50" and numbers["bpf-fexit-call-ns"] == "18"
    assert (numbers["bpf-fexit-call-missed"], numbers["bpf-fexit-jump-missed"]) == (1, 0)
    assert (numbers["bpf-fexit-call-counted"], numbers["bpf-fexit-jump-counted"]) == ("1.01", "-")
    assert native_hooks.jumped(native_hooks.rows({"here": call, "b": jump})) == {}
    assert native_hooks.jumped(native_hooks.rows({"a": call})) == {}


# -- taken once and kept


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """An empty cache, and a clock that says how often it was asked."""
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / "cache"))
    asked = []

    def measure():
        asked.append(1)
        return result("x86_64", {"direct": float(len(asked))})

    monkeypatch.setitem(kept._MEASURE, kept.HOOKS, measure)
    kept.own.cache_clear()
    yield asked
    kept.own.cache_clear()


def test_a_machine_is_timed_once_per_state_of_the_sources(fresh, monkeypatch):
    kept.host.isa()
    first = kept.own(kept.HOOKS)
    kept.own.cache_clear()
    assert kept.own(kept.HOOKS) == first and len(fresh) == 1
    monkeypatch.setattr(kept, "_state", lambda: "other")
    kept.own.cache_clear()
    assert kept.own(kept.HOOKS).row("direct")["ns_over"] == 2 and len(fresh) == 2


def test_where_nothing_runs_natively_the_saved_times_are_shown(fresh, monkeypatch, tmp_path):
    def refuse():
        raise TramplabError("native runs need Linux.")

    monkeypatch.setitem(kept._MEASURE, kept.HOOKS, refuse)
    monkeypatch.setattr(kept, "data_file", lambda name: tmp_path / name)
    with pytest.raises(TramplabError, match="need Linux"):
        kept.shown(kept.HOOKS)
    (tmp_path / "native").mkdir()
    mine, shape = result("arm64", {"direct": 5.0}), result("arm64", {"shape-2-0-balanced": 1.0})
    shape.rows[0]["saves"] = None
    mine.save(tmp_path / "native" / "b.json")
    shape.save(tmp_path / "native" / "a.json")
    assert kept.shown(kept.HOOKS) == (mine, "native runs need Linux.")
    assert list(kept.saved(kept.HOOKS)) == ["b"] and list(kept.saved(kept.SHAPES)) == ["a"]


def test_what_is_published_of_this_project_was_measured():
    """Each file says on what and with what command."""
    folder = kept.data_file("releases.yml").parent / "native"
    assert list(folder.glob("*.json"))
    for path in folder.glob("*.json"):
        facts = json.loads(path.read_text())["provenance"]
        assert {"date", "commit", "isa", "cpu", "kernel", "virtualised", "command"} <= facts.keys(), path.name
