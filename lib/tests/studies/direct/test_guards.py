"""The studies about guards: against models of their own, against other ways of counting, and with rows that are changed."""

import shutil

import pandas as pd
import pytest

from tramplab import Kernel, Ops
from tramplab.base.paths import checkout
from tramplab.build.toolchain import GUEST
from tramplab.isa import ISAS
from tramplab_book.studies.direct.guards import contexts, recursion, state, surroundings, without
from tramplab_book.studies.direct.guards.reentrant import ANOTHER, ITSELF, SUBJECTS, play

every_isa = pytest.mark.parametrize("isa", ISAS)


@pytest.fixture(scope="module")
def again() -> pd.DataFrame:
    return recursion.rows()


# -- recursion


def test_who_has_no_guard_and_is_called_straight_never_comes_back(again):
    """Said from outside: a callback without a guard has one exactly where the list or the assist function calls it."""
    had = again[again["outcome"] != recursion.NONE]
    endless = had["outcome"] == recursion.ENDLESS
    assert (endless == ((had["way"] == "straight") & (had["hook"] != "ops trylock"))).all()
    assert not had["right"][endless].any() and had["right"][~endless].all()
    lone = had[(had["hook"] == "ops") & (had["calls"] == ITSELF)].groupby("isa")["way"].agg(list).to_dict()
    assert lone == {
        "x86_64": ["straight"] * 6,
        "arm64": ["list"] * 2 + ["straight"] * 4,
        "riscv64": ["list"] * 4 + ["straight"] * 2,
    }


def test_what_a_guard_lets_in(again):
    """One bit and the one for transitions let two calls in and the third not; a counter lets one in and counts the next. Another
    tracer's ops of the same guard finds no bit left in the inner of two calls; another program has a counter of its own."""
    had = again[~again["outcome"].isin([recursion.NONE, recursion.ENDLESS])]
    for r in had.itertuples():
        program = r.hook in ("fentry", "fexit", "fmod_ret")
        ran, entered = (1, 2) if program else (2, 3)
        assert (r.ran, r.entered, r.missed, r.counted) == (ran, entered, 1, int(program)), r
        other = (0, 0) if r.calls == ITSELF else (1, 1) if program else (1, 2)
        assert (r.other_ran, r.other_entered) == other, r


def test_rounds_fill_the_stack(again):
    endless = again[again["outcome"] == recursion.ENDLESS]
    assert ((endless["rounds"] - endless["ran"]).abs() <= 1).all()
    assert ((endless["rounds"] * endless["size"] - recursion.STACK_SIZE).abs() < 3 * endless["size"]).all()
    assert (endless["size"] % 8 == 0).all()
    longer = endless.set_index(["isa", "release", "hook", "calls"])["size"].unstack("calls")
    assert (longer[ANOTHER] > longer[ITSELF]).all(), "the way by another function takes more"


def test_the_stack_is_taken_in_equal_steps():
    """Between two calls that are shown lie as many rounds as their numbers say, of the size that the error gives."""
    sizes = recursion.itself(recursion.rows()).set_index(["isa", "release", "hook"])["size"]
    for (isa, hook), part in recursion.depths().groupby(["isa", "hook"]):
        steps = part["stack"].diff().dropna() / part["call"].diff().dropna()
        assert set(steps) == {sizes[isa, "v7.2", hook]} and len(part) == recursion.POINTS
        assert part["call"].iloc[0] == 1 and part["stack"].max() <= recursion.STACK_SIZE


def changed_guest(tmp_path, old: str, new: str):
    """A copy of the guest whose guard has another line."""
    guest = tmp_path / "guest"
    shutil.copytree(GUEST, guest)
    header = guest / "core" / "recursion.h"
    text = header.read_text("utf-8")
    assert text.count(old) == 1
    header.write_text(text.replace(old, new), "utf-8")
    return guest


def test_without_the_transition_bit_a_callback_runs_once(tmp_path):
    """The page's own experiment, with the line that it names."""
    page = " ".join((checkout() / "book" / "direct-guards.md").read_text("utf-8").split())
    line = "bit = 1 << (TRACE_CTX_TRANSITION + start);"
    assert f"`{line}`, by `return 0;`" in page
    kernel = Kernel("arm64", guest=changed_guest(tmp_path, line, "return 0;"))
    for name in ("ops trylock", "ops RECURSION", "two ops"):
        played = play(kernel, name, ITSELF)
        assert (played.ran, played.entered, played.recursion) == (1, 2, None)


@every_isa
def test_a_guard_that_is_dropped_from_the_guest_is_missed(isa, tmp_path):
    """The list function's guard lets everybody in: what came back has no end, and the kernel works on."""
    guest = changed_guest(tmp_path, "\t\t\treturn 0;\n", "\t\t\t;\n")
    kernel = Kernel(isa, "v6.1", guest=guest)
    for name in ("ops trylock", "ops RECURSION", "two ops"):
        assert play(Kernel(isa, "v6.1"), name, ITSELF).recursion is None
        played = play(kernel, name, ITSELF)
        assert played.recursion and played.ran > 20
    assert kernel.call("two_args", 7, 9).value == 66


def test_calls_that_a_guard_drops_are_counted_by_programs_only(again):
    n = recursion.numbers(again)
    for isa in ISAS:
        assert n[f"{isa}-ops-trylock-entered"] - n[f"{isa}-ops-trylock-ran"] == 1 > n[f"{isa}-ops-trylock-counted"]
        assert n[f"{isa}-fentry-entered"] - n[f"{isa}-fentry-ran"] == 1 == n[f"{isa}-fentry-counted"]
    other = recursion.numbers(again.assign(other_ran=again["other_ran"].mask(again["isa"] == "arm64", 2)))
    assert (n["list-other-ran"], other["list-other-ran"]) == ("1", "1 to 2")


def test_the_lock_ends_the_recursion_where_preemption_is_not_turned_off(monkeypatch):
    assert recursion.preemptible() == dict.fromkeys(ISAS, 2)
    monkeypatch.setattr(recursion, "play", lambda kernel, *_: play(kernel, "ops", ITSELF))
    assert recursion.preemptible.__wrapped__() == dict.fromkeys(ISAS, 0)


# -- contexts


def test_contexts_against_a_model():
    """A set of bits, one for each context and one for all; a counter that lets one in."""
    names = list(contexts.CONTEXTS)
    for r in contexts.rows().itertuples():
        context, held, ran = r.outer, set(), 0
        while True:
            bit = context if context not in held else "transition"
            if bit in held:
                break
            held, ran, context = held | {bit}, ran + 1, context if r.inner == contexts.SAME else r.inner
        program = r.guard == "fentry"
        assert (r.ran, r.counted) == ((1, 1) if program else (ran, 0)), r
        assert r.inner == contexts.SAME or names.index(r.inner) > names.index(r.outer)


def test_a_kernel_that_differs_has_a_panel_of_its_own():
    frame = contexts.rows()
    assert len(set(contexts.shown(frame)["panel"])) == 2
    odd = (frame["isa"] == "arm64") & (frame["release"] == "v7.2") & (frame["guard"] == "fentry") & (frame["outer"] == "NMI")
    changed = frame.assign(ran=frame["ran"] + odd)
    assert any("fentry (arm64 v7.2)" in panel for panel in contexts.shown(changed)["panel"])


# -- task, CPU, RCU


def test_unguarded_hooks_touch_nothing():
    frame = surroundings.rows()
    straight = frame["hook"].isin(["direct", "bare fentry"])
    assert not straight.any()
    lone = frame[frame["hook"] == "ops"]
    assert set(zip(lone["isa"], lone["release"], strict=True)) == {
        ("arm64", "v5.17"), ("arm64", "v6.1"), *(("riscv64", r) for r in ("v5.17", "v6.1", "v6.4", "v6.12"))
    }  # fmt: skip


@every_isa
def test_fields_are_found_where_a_hand_put_them(isa):
    """Poison in a field changes what is read there: the guard's bits, seen by its refusal."""
    kernel = Kernel(isa)
    address, size = state.task_field(kernel, "trace_recursion")
    assert state.field_at(kernel, address) == ("task", "trace_recursion") and size == 8
    assert state.field_at(kernel, address - kernel.cpus[0].task, task=0) == ("task", "trace_recursion")
    assert state.field_at(kernel, kernel.image.address("lab_sink")) is None
    f = kernel.function("two_args")
    with kernel.attached(f, Ops(recursion=True)):
        kernel.machine.write_u64(address, (1 << 64) - 1)
        assert kernel.call(f, 1, 2).hits == (0,)
        kernel.machine.write_u64(address, 0)
        assert kernel.call(f, 1, 2).hits == (1,)


@every_isa
def test_the_preempt_count_is_seen_where_it_lies(isa):
    kernel = Kernel(isa)
    seen = state.watcher(kernel, "lab_callback")
    f, count = kernel.function("two_args"), state.preempt_count(kernel)
    with kernel.attached(f, Ops()):
        kernel.call(f, 1, 2)
        before = kernel.machine.read(count, 4)
        kernel.machine.write(count, (int.from_bytes(before, "little") + 3).to_bytes(4, "little"))
        kernel.call(f, 1, 2)
        kernel.machine.write(count, before)
    assert [s.off for s in seen()] == [0, 3] and seen() == []


def test_states_against_what_releases_are():
    """Preemption is off where ftrace's guard is, or where RCU's read side is a section without it, in kernels that count."""
    for r in surroundings.states().itertuples():
        if r.preemption == surroundings.NONE:
            continue
        features = Kernel(r.isa, r.release).features
        counts, preempt_rcu = bool(features["preemption"]), bool(features["preempt_rcu"])
        program = r.hook in without.PROGRAMS
        guarded = r.hook in ("two ops", "ops RCU") or (r.hook == "ops" and not (features["call_ops"] or r.isa == "x86_64"))
        assert r.off == (counts and (guarded or (program and not preempt_rcu)))
        assert r.readers == (program and preempt_rcu)
        assert r.pinned == (program and (preempt_rcu or not features["bpf_inline_guards"]))


def test_without_rcu_and_without_a_task():
    frame = without.rows()
    rcu, task = (frame[(frame["missing"] == missing) & (frame["outcome"] != without.NONE)] for missing in ("RCU", "task"))
    asked = rcu["hook"].eq("ops RCU") | (rcu["hook"].eq("two ops") & rcu["release"].eq("v6.4") & rcu["isa"].ne("riscv64"))
    assert ((rcu["outcome"] == without.LEFT_OUT) == asked).all() and rcu["right"].all()
    touched = surroundings.rows()
    uses = touched[(touched["owner"] == "task") | (touched["field"] == "current_task")]
    uses = set(uses[["isa", "release", "hook"]].itertuples(index=False, name=None))
    for r in task.itertuples():
        assert (r.outcome == without.FAULT) == ((r.isa, r.release, r.hook) in uses), r
        assert not r.at or (r.isa, r.release, r.hook, r.at) in set(
            touched[["isa", "release", "hook", "field"]].itertuples(index=False, name=None)
        ), "the field that was wanted is one that is used"


def test_what_programs_do_without_is_counted_from_the_rows():
    frame = without.rows()
    n = without.numbers(frame)
    assert (n["programs-total"], n["programs-rcu-called"], n["programs-task-called"], n["programs-task-faults"]) == (36, 36, 0, 36)
    program = frame["hook"].isin(without.PROGRAMS) & (frame["outcome"] != without.NONE)
    every = without.numbers(frame.assign(outcome=frame["outcome"].mask(program, without.CALLED)))
    assert (every["programs-task-called"], every["programs-task-faults"]) == (36, 0)


@every_isa
def test_the_machine_is_whole_after_it_was_without(isa):
    kernel = Kernel(isa)
    f = kernel.function("two_args")
    with kernel.attached(f, Ops(recursion=True), Ops(rcu=True)):
        with state.without_rcu(kernel):
            assert kernel.call(f, 1, 2).hits == (0, 1)
        assert kernel.call(f, 1, 2).hits == (1, 1)
        with state.without_task(kernel), pytest.raises(Exception, match="guest fault"):
            kernel.call(f, 1, 2)
        assert kernel.call(f, 1, 2).hits == (1, 1)


def test_every_hook_of_the_two_lists_that_is_alike_has_one_name():
    assert {"ops", "two ops", "direct", "bare fentry", "fentry", "fexit", "fmod_ret"} <= set(SUBJECTS) & set(surroundings.HOOKS)
