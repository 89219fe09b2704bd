"""`tramplab explore --all`: every scenario as if it were explored alone, in one order, gone on with where it stopped."""

import json
import os
import shutil
from pathlib import Path

import pytest

from support.base.without_workers import without_workers
from tramplab import cli
from tramplab.base import state
from tramplab.base.processes.progress import Progress
from tramplab.races import command
from tramplab.races.barriers import barriers, numbers_of
from tramplab.races.explore import explore
from tramplab.races.model.fetches import MODELS
from tramplab.races.scenarios import every
from tramplab.races.scenarios.every import Scenario, explored, scenarios
from tramplab.races.schemes.schemes import SCHEMES, scheme

MOST = 1_000_000
#: A scheme of a few scenarios, of both verdicts, which take a second, and how many they are.
SMALL = "riscv64-pair"
ALL = len(scenarios([SMALL], 3, MOST))


@pytest.fixture
def sweep(tramplab):
    """Run `tramplab explore --all` in this process, without workers unless the test says how many; returns (status, stdout,
    stderr)."""

    def run(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            if "--processes" not in arguments:
                without_workers(patch)
            return tramplab("explore", "--all", *arguments)

    return run


def test_all_scenarios():
    """Each scheme, each model, whole and without each barrier, in that order."""
    found = scenarios(SCHEMES, 3, MOST)
    expected = [
        (name, model, without)
        for name in SCHEMES
        for model in MODELS
        for without in ["", *(b.name for b in barriers(scheme(name).subject()))]
    ]
    assert [(s.scheme, s.fetch, s.without) for s in found] == expected
    assert {(s.threads, s.most) for s in found} == {(3, MOST)}
    assert scenarios([SMALL, "arm64-common"], 3, MOST) == [s for s in found if s.scheme in (SMALL, "arm64-common")]


@pytest.mark.parametrize("name", [SMALL, "riscv64-trap", "arm64-call-ops"])
def test_a_scenario_is_what_is_explored_alone(name):
    """On a kernel of its own; whatever this process has explored before, in whatever order."""
    every._executions.cache_clear()
    for found in reversed(scenarios([name], 2, MOST)):
        subject = scheme(name).subject()
        without = [found.without] if found.without else []
        alone = explore(subject, 2, found.fetch, numbers_of(subject, without), most=MOST)
        assert explored(found) == every.as_json(scheme(name), alone, without)


def test_the_table(sweep):
    """A line of at most 72 columns for each, in order; as JSON it is the same."""
    status, out, err = sweep("riscv64-trap")
    head, *lines = out.splitlines()
    assert status == 0 and head.split() == ["scheme", "fetch", "without", "verdict"] and max(map(len, out.splitlines())) <= 72
    wanted = scenarios(["riscv64-trap"], 3, MOST)
    assert [line.split()[:3] for line in lines] == [[s.scheme, s.fetch, s.without or "-"] for s in wanted]
    assert err.splitlines()[-1] == f"{len(wanted)} of {len(wanted)} scenarios"
    results = json.loads(sweep("riscv64-trap", "--processes", 2, "--json", "--quiet")[1])
    verdicts = [
        "safe" if r["verdict"] == "safe" else f"{r['violation']['which']}, {len(r['schedule'])} steps" for r in results
    ]
    assert [line.split(maxsplit=3)[3] for line in lines] == verdicts and {"safe", "unsafe"} == {r["verdict"] for r in results}


def test_what_is_not_decided(sweep):
    """By a number of states, which is the same everywhere: the same bytes, and a status that says so."""
    status, out, _ = sweep(SMALL, "--max-states", 100, "--processes", 1)
    assert status == command.UNDECIDED and "not decided" in out
    assert sweep(SMALL, "--max-states", 100, "--processes", 2)[:2] == (status, out)


def test_a_file_is_sorted_and_gone_on_with(sweep, monkeypatch, tmp_path):
    """Stopped on the way: what is there is not explored again, and the end is the same bytes as at once."""
    whole, file = tmp_path / "whole", tmp_path / "new" / "file"
    assert sweep(SMALL, "--save", whole)[0] == 0
    with monkeypatch.context() as m:
        add, count = Progress.add, []

        def stop(self, number):
            add(self, number)
            count.append(number)
            if len(count) == 5:
                raise KeyboardInterrupt

        m.setattr(Progress, "add", stop)
        status, out, err = sweep(SMALL, "--save", file, "--processes", 2)
    last = f"tramplab: interrupted; 5 of {ALL} scenarios are kept, and the same command goes on from there."
    assert (status, out) == (130, "") and err.splitlines()[-1] == last
    assert len(file.read_bytes().splitlines()) == 1 + 5
    status, out, err = sweep(SMALL, "--save", file)
    assert status == 0 and err.startswith(f"5 of {ALL} scenarios are there already\n")
    assert file.read_bytes() == whole.read_bytes()
    assert sweep(SMALL, "--save", file)[1:] == (out, f"{ALL} of {ALL} scenarios are there already\n")
    assert file.read_bytes() == whole.read_bytes() and os.listdir(file.parent) == ["file"]


def test_a_file_may_have_more_than_is_asked_for(sweep, tmp_path):
    """Two schemes, one after the other in either order: one file."""
    files = [tmp_path / "a", tmp_path / "b"]
    for file, names in zip(files, ([SMALL, "riscv64-pair-target"], ["riscv64-pair-target", SMALL]), strict=True):
        for name in names:
            _, out, _ = sweep(name, "--save", file, "--quiet")
            assert {line.split()[0] for line in out.splitlines()[1:]} == {name}
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(files[0].read_bytes().splitlines()) == 1 + len(scenarios([SMALL, "riscv64-pair-target"], 3, MOST))


# --- What the user can put right


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A file of results, which no test changes."""
    file = tmp_path_factory.mktemp("sweep") / "file"
    with pytest.MonkeyPatch.context() as patch:
        without_workers(patch)
        assert cli.main(["explore", SMALL, "--all", "--save", str(file), "--quiet"]) == 0
    return file


@pytest.fixture
def saved(once, tmp_path):
    """The same, to be changed."""
    return Path(shutil.copy(once, tmp_path))


@pytest.mark.parametrize("cut", [1, 300, "in the first line", "all"])
def test_what_a_killed_process_left_of_a_line_is_cut_off(sweep, saved, cut):
    before = saved.read_bytes()
    first = before.index(b"\n")
    left = {"in the first line": before[: first // 2], "all": b""}.get(cut) if isinstance(cut, str) else before[:-cut]
    saved.write_bytes(left)
    assert sweep(SMALL, "--save", saved)[0] == 0 and saved.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: "my thesis", ["is not of `explore --all`"]),
        (lambda text: edited(text, 1, lambda head: head.update(threads=2)), ["is of --threads 2 and --max-states 20000000"]),
        (lambda text: text.replace('"unsafe"', '"safe"', 1), ["is damaged in line 4"]),
        (lambda text: text + text.splitlines(keepends=True)[4], [f"is damaged in line {ALL + 2}"]),
        (lambda text: text + "nothing\n", [f"is damaged in line {ALL + 2}"]),
    ],
)
def test_a_file_of_something_else_is_a_sentence_and_stays(sweep, saved, change, words):
    other = change(saved.read_text("utf-8"))
    saved.write_text(other, "utf-8")
    status, out, err = sweep(SMALL, "--save", saved)
    assert (status, out, err.count("\n")) == (2, "", 1) and err.startswith(f"tramplab: {saved} ")
    assert all(word in err for word in words) and "give --save another name, or remove the file." in err
    assert saved.read_text("utf-8") == other


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.update(verdict="safe"),
        lambda r: r.update(limit="5 states"),
        lambda r: r.update(violation=None),
        lambda r: r["schedule"].pop(3),
        lambda r: r.update(states="34"),
        lambda r: r.update(threads=2),
        lambda r: r.update(isa="arm64"),
        lambda r: r.update(scheme="riscv64-pare"),
        lambda r: r.update(without=["start_machine"]),
        lambda r: r.pop("kernel"),
    ],
)
def test_what_says_two_things_is_refused(sweep, saved, change):
    """A verdict and its words, a scheme and its ISA; and what is of another type."""
    other = edited(saved.read_text("utf-8"), 4, change)
    saved.write_text(other, "utf-8")
    status, out, err = sweep(SMALL, "--save", saved)
    said = f"tramplab: {saved} is damaged in line 4: give --save another name, or remove the file.\n"
    assert (status, out, err) == (2, "", said) and saved.read_text("utf-8") == other


def edited(text: str, number: int, change) -> str:
    """A file with a line changed, as if it had been written so."""
    lines = text.splitlines(keepends=True)
    said = json.loads(lines[number - 1])
    change(said)
    lines[number - 1] = json.dumps(said) + "\n"
    return "".join(lines)


def test_a_file_of_other_sources_is_refused(sweep, saved, monkeypatch):
    monkeypatch.setattr(state, "of", lambda parts, facts: "0123456789abcdef")
    assert "is of other sources (" in sweep(SMALL, "--save", saved)[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--all", "--fetch", "stale"], ["--all", "leave --fetch away"]),
        (["--all", "--time-limit", "9"], ["--all has no --time-limit", "--max-states"]),
        (["--all", "--every-step"], ["--every-step"]),
        (["--all", "riscv64-pare"], ["unknown scheme 'riscv64-pare'", SMALL]),
        (["--all", "--threads", "99"], ["threads, not 99"]),
        (["--all", "--max-states", "0"], ["--max-states is a whole number from 1 to 4294967294, not 0."]),
        (["--all", "--processes", "2", "--scheduler", "127.0.0.1:1"], ["leave one of the two away"]),
        (["--all", "--save", "/proc/nowhere/file"], ["cannot write /proc/nowhere/file"]),
        (["--save", "file"], ["--save goes with --all"]),
        (["--processes", "2", "--scheduler", "x"], ["--processes and --scheduler go with --all"]),
    ],
)
def test_bad_input_is_one_line_and_status_2(tramplab, monkeypatch, tmp_path, arguments, words):
    monkeypatch.chdir(tmp_path)
    status, out, err = tramplab("explore", *arguments)
    assert (status, out, os.listdir(tmp_path)) == (2, "", [])
    assert err.startswith("tramplab: ") and err.count("\n") == 1 and all(word in err for word in words)


def test_a_scenario_says_what_it_is():
    """In the sentence on a worker that dies."""
    assert str(Scenario(SMALL, "stale", "fence.i", 3, MOST)) == "riscv64-pair, fetch stale, without fence.i"
    assert str(Scenario(SMALL, "stale", "", 3, MOST)) == "riscv64-pair, fetch stale"
