"""The studies of chapter "From counts to time" that need no clock: made-up times in, known ranks and errors out."""

import pytest

from support.native.machines import CPUS, result, shaped
from tramplab import isa as isas
from tramplab.base.errors import TramplabError
from tramplab.estimate import judged
from tramplab.estimate.cores import cores
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.native import default_hooks
from tramplab.trampolines import shapes
from tramplab_book.studies.time import native_hooks, native_machine, native_shapes, return_stack, thunks


@pytest.fixture(scope="module")
def returns():
    return return_stack.rows()


def test_every_hook_of_every_release_is_replayed(returns):
    for isa in ISAS:
        for release in releases.shown():
            features = releases.features(ISAS[isa], release, {})
            had = sum(features[h.needs] * (1 + h.counts) for h in hooks.PLAIN.values())
            part = returns[(returns["isa"] == isa) & (returns["release"] == release)]
            assert len(part) == had + 2 * (release == releases.LATEST)


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
    assert numbers["hooks"] == "direct+ops, bpf-fexit, bpf-fmodret"
    assert (numbers["fexit-old-release"], numbers["fexit-new-release"]) == ("v6.16", "v7.2")
    assert (numbers["arm64-fexit-own"], numbers["riscv64-fexit-own"], numbers["x86_64-fexit-own"]) == (2, 1, 0)


def test_with_safe_returns_calls_and_returns_in_pairs_no_longer_matter():
    """In Debian's kernels every return through the thunk misses, so the jump to fexit's trampoline spares none, and all callers of
    an untraced call miss; a retpoline misses once per indirect call, which a lone ops has not."""
    of = thunks.rows().set_index(["release", "hook", "booted"])
    assert not of.index.duplicated().any() and len(of) == 4 * len(thunks._ROWS)
    safe = of[of.index.get_level_values("booted").isin(["safe returns", "both"])]
    assert set(safe["above"]) == {thunks.CALLERS} and safe["own"].min() == 1
    plain = of.xs("none", level="booted")
    assert {hook for (_, hook), above in plain["above"].items() if above} == {"bpf-fexit", "kretprobe"}
    assert plain["above"][thunks.OLD, "bpf-fexit"] == thunks.CALLERS and plain["above"][thunks.NEW, "bpf-fexit"] == 0
    pairs = of.xs("retpolines", level="booted")
    assert (pairs["own"] - plain["own"]).loc[thunks.NEW, ["none", "ops", "ops:2", "kprobe"]].tolist() == [0, 0, 2, 1]
    assert ((of.xs("both", level="booted") - of.xs("safe returns", level="booted"))["own"] == pairs["own"] - plain["own"]).all()


# -- native times, made up


@pytest.fixture(scope="module")
def third():
    """A third of the shapes, with times that are exactly half of what the first usable model is estimated to take."""
    isa, core = "x86_64", judged.usable("x86_64")[0]
    times = {str(s): native_shapes.estimate(isa, core.name, s).mid / 2 for s in shapes.GRID[::3]}
    frames = [native_shapes.frame({"a": shaped(isa, times, **more)}) for more in ({"branch_misses": 0.25}, {})]
    return core.name, times, *frames


def test_a_model_that_is_right_but_for_a_factor_has_no_error(third):
    core, times, frame, _ = third
    table = native_shapes.ranks(frame).set_index("estimator")
    assert (table.loc[core, "all_rank"], table.loc[core, "all_error"]) == (1, 0)
    assert (table.loc[core, "balanced_rank"], table.loc[core, "unbalanced_error"]) == (1, 0)
    assert table.loc["instructions", "all_rank"] < 1 and table.loc["instructions", "all_error"] > 5
    assert native_shapes.numbers(frame)["shapes"] == len(shapes.GRID)
    part = frame[frame["core"] == core]
    assert len(part) == len(times) > 10
    assert (part["estimated"] - part["measured"]).abs().max() <= 0.01
    assert (part["low"] <= part["estimated"]).all() and (part["estimated"] <= part["high"]).all()


def test_a_shape_without_a_time_is_left_out(third):
    """One that was not timed, one that took no time, and one on which the windows do not agree."""
    _, times, frame, _ = third
    isa, first, second, other = frame["isa"].iloc[0], *list(times)[:3]
    fewer = {s: t for s, t in times.items() if s != first} | {second: 0.0}
    left = native_shapes.frame({"a": shaped(isa, fewer, unquiet=(other,))})
    all_of_them, kept_ones = (set("shape-" + f["shape"] + "-" + f["way"]) for f in (frame, left))
    assert all_of_them == set(times) and kept_ones == set(times) - {first, second, other}


def test_misses_stand_beside_the_counters_where_there_are_any(third):
    _, _, frame, uncounted = third
    assert set(frame[frame["way"] == "balanced"]["missed"]) == {0}
    assert set(frame[frame["way"] == "unbalanced"]["missed"]) == {1}
    assert set(frame["counted"]) == {0.25} and uncounted["counted"].isna().all()


def test_few_shapes_are_not_ranked(third):
    _, times, frame, _ = third
    few = native_shapes.frame({"a": shaped(frame["isa"].iloc[0], dict(list(times.items())[: native_shapes.FEWEST - 1]))})
    assert native_shapes.ranks(few).iloc[:, 3:].isna().all(axis=None)
    numbers = native_shapes.numbers(few)
    assert (numbers["model-least-rank"], numbers["count-most-rank"]) == (0, 0)


@pytest.mark.parametrize("isa", ["arm64", "riscv64"])
def test_without_a_usable_model_times_are_shown_and_nothing_is_estimated(isa):
    """The count of instructions is ranked; no model is named, no estimate is there, and nothing is drawn."""
    shapes_timed = native_shapes.frame({"a": shaped(isa, {str(s): 1.0 + n for n, s in enumerate(shapes.GRID)})})
    hooks_timed = native_hooks.frame({"a": result(isa, {"ops": 8.0, "direct": 4.0})})
    assert list(native_shapes.ranks(shapes_timed)["estimator"]) == ["instructions"] and len(hooks_timed) == 2
    assert shapes_timed["estimated"].isna().all() and hooks_timed["estimate"].isna().all()
    for study, frame in ((native_shapes, shapes_timed), (native_hooks, hooks_timed)):
        assert study.chart(frame) is None
        assert not {*cores()} & {*study.table(frame).columns}


def test_the_model_of_the_cpus_core_leads():
    """It is the first in the table and the one that is drawn; where it is not usable, the maker's that is, or another."""
    times = {str(s): 1.0 + n for n, s in enumerate(shapes.GRID)}
    zen4, _, later, *_, hygon, _ = CPUS["x86_64"]
    machines = {"a": zen4, "b": later, "c": hygon}
    frame = native_shapes.frame({n: shaped("x86_64", times, cpu=cpu) for n, cpu in machines.items()})
    first = native_shapes.ranks(frame).groupby("machine", sort=False)["estimator"].first()
    assert dict(first) == {"a": "zen4", "b": "zen5", "c": "zen5"}
    assert set(frame[frame["lead"].astype(bool)]["machine"]) == {"a", "b", "c"}
    assert len(native_shapes.chart(frame).rows) == 3 * len(times)
    assert set(frame[frame["exact"].astype(bool)]["machine"]) == {"a"}


def test_hooks_of_several_machines_stand_side_by_side():
    """Each with the model of its own core, of the nearest, or of none."""
    times = {"ops": 8.0, "ops:2": 30.0, "direct": 4.0}
    made = {
        "own": result("x86_64", times, cpu=CPUS["x86_64"][0]),
        "near": result("x86_64", times, cpu=CPUS["x86_64"][4]),
        "other": result("arm64", {"direct": 5.0}, cpu=CPUS["arm64"][2]),
    }
    frame = native_hooks.frame(made)
    parts = dict.fromkeys(native_hooks.table(frame)["isa"])
    assert list(parts) == [
        "x86_64 v7.2, own, model of zen4 (own core)",
        "x86_64 v7.2, near, model of golden-cove (own core)",
        "arm64 v7.2, other, no usable model",
    ]
    assert list(native_machine.led(frame[frame["machine"] == "own"])["ratio"]) == [2.0, 7.5, 1.0]
    usable = {core.name for core in judged.usable("x86_64")}
    cores_of = {m: list(dict.fromkeys(part["core"])) for m, part in frame.groupby("machine")}
    assert set(cores_of["own"]) == usable == set(cores_of["near"])
    assert (cores_of["own"][0], cores_of["near"][0]) == ("zen4", "golden-cove")
    table = native_hooks.table(frame)
    assert usable <= set(table.columns)
    assert len(table[table["ns"] != "not timed"]) == 7 and len(table) == 10
    assert (table[table["isa"].str.startswith("arm64")]["zen4"] == "-").all()


def test_hooks_without_a_time_are_said_to_have_none():
    """Those that a machine's result lacks, of all that run natively in its release: how many, in the table."""
    every = default_hooks(isas.get("x86_64"))
    some = [h for h in every if not h.startswith(("kretprobe", "fprobe-exit")) and h != "ops:10"]
    saved = {
        "all": result("x86_64", dict.fromkeys(every, 4.0), cpu=CPUS["x86_64"][0]),
        "some": result("x86_64", dict.fromkeys(some, 4.0), cpu=CPUS["x86_64"][1]),
        "old": result("x86_64", {"ops": 4.0}, "v5.17", cpu=CPUS["x86_64"][2]),
    }
    frame = native_hooks.frame(saved)
    lacked = {machine: native_machine.untimed(part) for machine, part in frame.groupby("machine")}
    assert lacked["all"] == () and set(lacked["some"]) == set(every) - set(some)
    assert "kretprobe" in lacked["old"] and not any(h.startswith("bpf") for h in lacked["old"])
    for table in (native_hooks.table(frame), native_hooks.golden(frame)):
        lines = table[table["ns"] == "not timed"]
        counts = [f"{len(lacked[machine])} others" for machine in ("some", "old")]
        assert list(lines["hook"]) == counts and [part.split(", ")[1] for part in lines["isa"]] == ["some", "old"]
        assert len(table) == len(every) + len(some) + 1 + 2


def test_a_saved_result_of_an_unknown_release_lacks_nothing():
    assert native_machine.untimed(native_hooks.frame({"a": result("x86_64", {"ops": 4.0}, "v9.9")})) == ()
    assert native_machine.untimed(native_hooks.frame({})) == ()


def test_what_is_drawn_of_measured_hooks():
    """The largest result of each CPU with its nearest model; ops with any number of callbacks, and of the others one. Nothing on
    which windows do not agree, nothing that no kernel has, and no CPU that was timed with few."""
    zen = CPUS["x86_64"][0]
    times = {"ops": 8.0, "ops:10": 30.0, "direct": 4.0, "bpf-fentry:2": 9.0, "ops-live": 4.0}
    large, small = result("x86_64", times, cpu=zen, unquiet=("direct",)), result("x86_64", {"ops": 8.0}, cpu=zen)
    few = result("x86_64", {"ops": 8.0}, cpu=CPUS["x86_64"][4])
    frame = native_hooks.frame({"small": small, "large": large, "few": few})
    rows = native_hooks.chart(frame).rows
    assert {(r["panel"], r["series"]) for r in rows} == {("x86_64, v7.2", "measured"), ("x86_64, v7.2", "model of zen4")}
    assert [(r["name"], r["series"]) for r in rows] == [
        (hook, by) for hook in ("ops:10", "ops") for by in ("measured", "model of zen4")
    ]
    assert [r["value"] for r in rows[::2]] == [60.0, 16.0]


def test_the_page_leads_with_the_model_of_the_largest_saved_result(monkeypatch):
    zen, later = CPUS["x86_64"][0], CPUS["x86_64"][4]
    saved = {"a": result("x86_64", {"ops": 8.0}, cpu=zen), "b": result("x86_64", {"ops": 8.0, "direct": 1.0}, cpu=later)}
    monkeypatch.setattr(native_machine, "saved", lambda kind: saved)
    core, said = native_machine.lead()
    assert core.name == "golden-cove" and said.startswith("golden-cove, that of the CPU on which")
    monkeypatch.setattr(native_machine, "saved", lambda kind: {"c": result("arm64", {"ops": 8.0})})
    with pytest.raises(TramplabError, match="save some there"):
        native_machine.lead()


def test_what_lies_in_the_band_is_counted():
    """The ends belong to it."""
    frame = native_hooks.frame({"a": result("x86_64", {"ops": 8.0, "direct": 4.0}, cpu=CPUS["x86_64"][0])})
    frame = frame[frame["lead"].astype(bool)].reset_index(drop=True)
    for cycles, inside in (((1.0, 1.0), 0), (tuple(frame["low"]), 2), (tuple(frame["high"]), 2), ((1.0, frame["high"][1]), 1)):
        assert native_hooks.numbers(frame.assign(cycles=cycles))["own-inside"] == inside


def said_of(call, jump) -> tuple:
    numbers = native_hooks.numbers(native_hooks.frame({"a": call, "b": jump}))
    return numbers["fexit-core"], numbers["fexit-call-cycles"], numbers["fexit-jump-cycles"]


def test_saved_times_of_the_call_and_of_the_jump_are_compared():
    """On one CPU, where windows agree; 0 where there are not both."""
    zen = CPUS["x86_64"][0]
    call = result("x86_64", {"bpf-fexit": 18.0}, "v6.18", cpu=zen)
    jump = result("x86_64", {"bpf-fexit": 12.0}, "v6.19", cpu=zen)
    assert said_of(call, jump) == ("zen4", 36.0, 24.0)
    other = result("x86_64", {"bpf-fexit": 12.0}, "v6.19", cpu=CPUS["x86_64"][1])
    unquiet = result("x86_64", {"bpf-fexit": 12.0}, "v6.19", cpu=zen, unquiet=("bpf-fexit",))
    for second in (other, unquiet, result("x86_64", {"bpf-fexit": 12.0}, cpu=zen)):
        assert said_of(call, second) == ("", 0, 0)
