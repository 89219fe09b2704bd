"""The published counts of real kernels: whole, of the images that are listed, and the same when an image is measured again."""

import json

import pytest

from support import ROOT
from tramplab.emulate.counting.counts import COMPONENTS
from tramplab.estimate.returnstack import CALLERS
from tramplab.vmlinux import hooks
from tramplab.vmlinux.booted.mitigations import WITH
from tramplab.vmlinux.debian.fetch import there
from tramplab.vmlinux.debian.list import packages
from tramplab.vmlinux.results import beside
from tramplab.vmlinux.results.result import added
from tramplab.vmlinux.saved import recount, saved

EVERY = saved.every()
#: Hooks that images which could not be fetched since have not been counted with; those that are there have all.
SINCE: set[str] = set()
each = pytest.mark.parametrize("found", EVERY, ids=[r["package"]["name"] for r in EVERY])


def rows(found):
    return {row["hook"]: row for row in found["hooks"]}


def test_there_is_a_result_for_each_image_and_nothing_else():
    names = {p.name for p in packages()}
    assert {path.stem for path in (ROOT / "data" / "kernels").glob("*.json")} == names
    assert len(names) >= 12
    assert {r["kernel"]["isa"] for r in EVERY} == {"x86_64", "arm64", "riscv64"}
    assert {r["kernel"]["release"] for r in EVERY} >= {"v6.1", "v6.12", "v7.2"}


@each
def test_an_image_lies_around_its_text_and_the_text_around_its_trampoline(found):
    """Where all three are known; the largest text starts at the image's link address, or less than a page table's reach behind."""
    places = {name: [int(address, 16) for address in span] for name, span in found["kernel"]["places"].items()}
    text, (caller, end) = places["text"], places["ftrace_caller"]
    image = places.get("image", text)
    assert image[0] <= text[0] < caller < end < text[1] <= image[1] and text[0] - image[0] < 1 << 21
    assert ("image" in places) == (found["kernel"]["config"]["KALLSYMS_ALL"]), "the end of the data is a data symbol"


@each
def test_every_hook_is_there_and_none_failed(found):
    """A run that failed a check may be reported, but is not published."""
    package = next(p for p in packages() if p.name == found["package"]["name"])
    missing = set(hooks.HOOKS) - set(rows(found))
    assert missing <= SINCE and not (missing and there(package)), f"`make kernels KERNELS={package.name}` counts {missing}"
    assert list(rows(found)) == [name for name in hooks.HOOKS if name not in missing]
    assert {row["hook"]: row["reason"] for row in found["hooks"] if row["status"] == "failed"} == {}
    assert all(row["reason"] for row in found["hooks"] if row["status"] == "absent")


@each
def test_debian_builds_kernels_as_their_releases_are_but_for_preemption_and_ubsan(found):
    """So what tells frame pointers, landing pads and the like in an image is right on these."""
    assert {name for name, _ in beside.overrides(found["kernel"])} <= {"preemption", "preempt_rcu", "ubsan_bounds"}
    assert len(found["kernel"]["config"]) in (14, 17)


@each
def test_what_runs_with_mitigations_is_more(found):
    """Of x86-64's kernels, and of the same hooks. A retpoline adds two instructions to a call, three to a jump, and a return that
    misses; a safe return adds three and misses, in the call and above it; and so does a retpoline's own, where there are both. A
    return that its function makes without a thunk may miss as it did."""
    counted = found.get("mitigated", {})
    plain = {row["hook"]: row for row in found["hooks"] if row["status"] == "measured"}
    assert set(counted) == (set(plain) if found["kernel"]["isa"] == "x86_64" else set())
    for hook, of in counted.items():
        assert tuple(of) == WITH
        (retpolines, pairs, above), (safe, missed, all_above), (both, all_missed, _) = of.values()
        before, missed_before = saved._core(plain[hook]), plain[hook]["return_mispredicts"]
        indirect, (returns, odd) = pairs - missed_before["own"], divmod(safe - before, 3)
        assert above == missed_before["outer"] and all_above == CALLERS and returns >= 1 and not odd
        assert 0 <= missed - returns <= missed_before["own"] and all_missed - missed == indirect, hook
        assert 2 * indirect <= retpolines - before <= 3 * indirect and both - safe == retpolines - before + 3 * indirect, hook


@each
def test_a_static_ops_is_served_straight(found):
    """Where it is alone, by no more than a trampoline. A dynamic one is so where there is CALL_OPS, or a trampoline of its own;
    else the list function serves it."""
    dynamic, static = (rows(found)[name] for name in ("ops", "ops-static"))
    straight = found["kernel"]["config"]["DYNAMIC_FTRACE_WITH_CALL_OPS"] or found["kernel"]["isa"] == "x86_64"
    assert static["components"]["core"]["instructions"] == 0
    assert ("ftrace_ops_list_func" in dynamic["symbols"]) == (not straight)
    assert (dynamic["components"] == static["components"]) == straight
    assert dynamic["components"]["trampoline"] == static["components"]["trampoline"]
    pairs = [p for p in beside.pairs(found) if p.hook == "ops-static"]
    assert {p.component for p in pairs} == {"site", "trampoline"} and all(abs(p.lab[0] - p.real[0]) <= 2 for p in pairs)


@each
def test_a_hook_that_a_result_has_not_yet_is_said_to_be_uncounted(found):
    """In a line, whichever it is; what the result has stays as it is."""
    assert [row["hook"] for row in saved.rows(found)] == list(hooks.HOOKS)
    assert [row for row in saved.rows(found) if row["status"] != saved.UNCOUNTED] == found["hooks"]
    older = {**found, "hooks": [row for row in found["hooks"] if row["hook"] != "ops"]}
    (row,) = (row for row in saved.rows(older) if row["hook"] == "ops")
    assert row == {"hook": "ops", "status": "uncounted", "reason": "not counted yet, `make kernels` counts it"}


@each
def test_what_runs_follows_from_what_is_attached(found):
    """More ops cost more, each as much as the one before it; what is called twice is not less than what is called once; nothing
    executes less than nothing."""
    measured = {name: row for name, row in rows(found).items() if row["status"] == "measured"}
    cost = {name: added(row, measured["none"])["instructions"] for name, row in measured.items()}
    assert cost["none"] == 0 and all(n >= 0 for n in cost.values())
    assert cost["ops"] < cost["ops:2"] < cost["ops:10"] < cost["ops:64"]
    step = (cost["ops:10"] - cost["ops:2"]) / 8
    assert step == (cost["ops:64"] - cost["ops:10"]) / 54
    if "bpf-fexit" in cost:
        assert cost["bpf-fexit"] > cost["bpf-fentry"] > cost["direct"] if "direct" in cost else True
    for row in measured.values():
        assert set(row["components"]) == set(COMPONENTS)
        for n, what in enumerate(("instructions", "loads", "stores")):
            in_parts = sum(row["components"][part][what] for part in ("trampoline", "core"))
            assert sum(counts[n] for counts in row["symbols"].values()) == in_parts
        assert row["frame_bytes_written"] <= row["frame_bytes"] <= max(row["stack_bytes"], row["frame_bytes"])
    calls_ops = found["kernel"]["config"]["DYNAMIC_FTRACE_WITH_CALL_OPS"] or found["kernel"]["isa"] == "x86_64"
    assert (cost["ops+10-elsewhere"] == cost["ops"]) == calls_ops


@each
def test_a_file_is_written_as_it_is(found):
    path = ROOT / "data" / "kernels" / f"{found['package']['name']}.json"
    assert saved.text(found) == path.read_text("utf-8")


@pytest.mark.parametrize("package", [p for p in packages() if p.one], ids=lambda p: p.name)
def test_an_image_that_was_fetched_gives_the_saved_result(package):
    """Byte for byte: whatever machine measures it."""
    if not there(package):
        pytest.skip(f"{package.name} has not been fetched (make kernels KERNELS=--one)")
    assert json.loads(saved.text(saved.make(package))) == saved.read(package)


def test_what_has_not_been_fetched_keeps_its_file(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path))
    assert recount.main([packages()[0].name]) == 0
    assert "not fetched, its file stays as it is" in capsys.readouterr().out
    assert recount.main(["debian-5.0"]) == 2
    assert "unknown kernel image" in capsys.readouterr().err
