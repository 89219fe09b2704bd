"""The stepper: its data and its text. See test_stepper_page.py for the element in a browser."""

import copy
import gzip
import json
import re

import pytest

from tramplab.base.errors import TramplabError
from tramplab.races.explore import explore
from tramplab.races.schedule import PATCHER
from tramplab.races.schemes.schemes import scheme
from tramplab.races.strips import START, strips
from tramplab_book.publish.stepper.stepper import segments, step_of, stepper
from tramplab_book.publish.stepper.walk_data import pack
from tramplab_book.publish.stepper.walk_text import walk_text
from tramplab_book.studies.variants.one_callback import first_callback

WALK = {
    "isa": "arm64",
    "sp": "sp",
    "config": "arm64 v0",
    "call": "f(1) = 2",
    "symbols": [["f", "site"], ["tramp</script>", "trampoline"]],
    "code": [[0, 0, "bl tramp"], [1, 0, "stp x0, x1, [sp]"], [1, 4, "cbnz x0, tramp"], [0, 4, "ret"]],
    "registers": {"x0": "1", "x1": "x1@0", "x30": "g+0x4", "sp": "S"},
    "memory": {"counter": "0"},
    "fields": {"S-0x10": "regs[0]", "S-0x18": "regs[1]", "S-0x20": "regs[2]"},
    "steps": [
        [0, {"x30": "f+0x4"}, {}, []],
        [1, {}, {"S-0x10": "1", "S": "a_very_long_symbol_on_the_stack+0x10"}, []],
        [2, {}, {}, ["counter"]],
        [1, {"sp": "S-0x20"}, {"S-0x10": "2", "S": "0"}, []],
        [2, {}, {}, ["counter"]],
        [3, {"x0": "2", "sp": "S"}, {}, []],
    ],
    "milestones": {"site": 0, "save": 1, "return": 5},
}
WATCH = "Watch x0 & x1."


@pytest.fixture(scope="module")
def walks():
    return first_callback.walks()


def data_in(html: str) -> dict:
    return json.loads(re.search(r"<script[^>]*>(.*?)</script>", html, re.S)[1])


# -- data


def unpacked(packed: dict) -> tuple[list[str], list[dict], list[set]]:
    """The instructions and, for each, what every place holds and which it read: what the page's script makes of the data."""
    code, held, line, texts, states, reads = [], list(packed["start"]), -1, [], [], []
    for item in packed["code"]:
        code += [item] if isinstance(item, str) else []
    for number, step in enumerate(packed["steps"]):
        line = packed["jumps"].get(number, line + 1)
        texts.append(code[line])
        items = iter(step)
        for item in items:
            if item >= 0:
                held[item] = next(items)
        states.append({n: packed["values"][v] for n, v in enumerate(held) if v >= 0})
        reads.append({~item for item in step if item < 0})
    return texts, states, reads


def places(packed: dict) -> list[str]:
    return [name if isinstance(name, str) else f"S{name:+#x}" if name else "S" for name in packed["places"]]


@pytest.mark.parametrize("which", ["x86_64", "arm64", "riscv64", "example"])
def test_packing_loses_nothing(walks, which):
    walk = WALK if which == "example" else next(w for w in walks if w["isa"] == which)
    packed = pack(walk)
    texts, states, reads = unpacked(packed)
    assert texts == [walk["code"][step[0]][2] for step in walk["steps"]]
    held = {**walk["registers"], **walk["memory"]}
    names = places(packed)
    for state, read, (_, changed, stores, loads) in zip(states, reads, walk["steps"], strict=True):
        held |= changed | stores
        assert {names[n] for n in read} == set(loads)
        assert {names[n]: text for n, text in state.items()} == {n: held[n] for n in names if n in held}
    changing = {name for _, changed, _, _ in walk["steps"] for name in changed}
    assert changing | {walk["sp"]} == set(places(packed)[: packed["registers"]])
    assert dict(packed["same"]) == {name: text for name, text in walk["registers"].items() if name not in changing | {walk["sp"]}}


def test_a_loop_is_a_jump_and_the_stack_left_alone_is_one_row():
    packed = pack(WALK)
    assert packed["jumps"] == {3: 1}
    rows = [item if isinstance(item, list) else places(packed)[item] for item in packed["memory"]]
    assert rows == ["S", [-8, -8, ""], "S-0x10", [-24, -32, "regs[1] regs[2]"], "counter"]


def test_the_data_is_small(walks):
    """As it goes over the wire; most of it is code, as a call without loops runs each instruction once."""
    script = re.search(r"<script[^>]*>(.*?)</script>", stepper(walks, {}, WATCH).html, re.S)[1]
    steps = sum(len(w["steps"]) for w in walks)
    assert len(gzip.compress(script.encode())) / steps <= 20 and len(script) / steps <= 60


def test_text_cannot_end_the_script_element():
    made = stepper([WALK], {}, WATCH).html
    assert made.count("</script>") == 1 and data_in(made)["walks"][0]["symbols"] == WALK["symbols"]
    assert "tramp&lt;/script&gt;" in made


def test_what_to_look_for_is_above_in_html_and_text():
    made = stepper([WALK], {}, WATCH)
    assert made.html.startswith('<p class="tl-watch">Watch x0 &amp; x1.</p>\n<tl-steps>') and made.text.startswith(f"{WATCH}\n\n")


# -- milestones and notes


def walk_with(**milestones) -> dict:
    return {**copy.deepcopy(WALK), "isa": f"isa{len(milestones)}", "milestones": milestones}


def test_milestones_that_a_walk_lacks_are_left_out_for_it():
    long, short = walk_with(site=0, save=1, body=3, end=5), walk_with(site=0, body=4)
    expected = [("site", 4), ("save", 2), ("body", 2), ("end", 1)]
    assert segments([long, short]) == segments([short, long]) == expected


def test_milestones_in_another_order_are_refused():
    with pytest.raises(TramplabError, match="isa2 passes site earlier than another walk does"):
        segments([walk_with(site=0, save=1, body=2), walk_with(save=0, site=1)])


def test_notes_are_pinned_to_the_step_they_are_about():
    at = [("site", 0), ("save", 1), ("save", "stp"), ("save", "ret"), ("site", "tramp</script>+0x4"), ("site", "f+0x4")]
    assert [step_of(WALK, *where) for where in at] == [0, 2, 1, 5, 2, 5]
    notes = {"arm64": {("save", "ret"): "There.", ("site", 0): "Here."}, "": {("save", 2): "All."}}
    made = stepper([WALK], notes, WATCH)
    assert data_in(made.html)["walks"][0]["notes"] == [[0, "Here."], [5, "There."]]
    assert data_in(made.html)["notes"] == [["save", 2, "All."]]
    assert [made.text.count(f"     # {text}\n") for text in ("Here.", "There.", "All.")] == [1, 1, 1]


@pytest.mark.parametrize(
    "notes, complaint",
    [
        (
            {"arm64": {("save", "nop"): "x"}},
            "from save on, arm64 has no instruction that begins with, or lies at, 'nop'",
        ),
        ({"arm64": {("save", 9): "x"}}, "from save on, arm64 has no step 9"),
        ({"arm64": {("body", 0): "x"}}, "unknown milestone of the walk on arm64 'body'"),
        ({"arm63": {("save", 0): "x"}}, "unknown walk for a note 'arm63'; did you mean arm64"),
        ({"": {("sav", 0): "x"}}, "unknown milestone for a note 'sav'; did you mean save"),
        ({"": {("save", 4): "x"}}, "note for all walks is about no step: save has 4, counted from 0, and no 4"),
        ({"": {("save", "stp"): "x"}}, "and no 'stp'"),
        ({"arm64": {("save", 0): "x", ("save", "stp"): "y"}}, "two notes are about one step on arm64: 'x' and 'y'"),
    ],
)
def test_a_note_about_nothing_is_refused(notes, complaint):
    with pytest.raises(TramplabError, match=re.escape(complaint)):
        stepper([WALK], notes, WATCH)


def test_too_many_walks_are_refused():
    for walks in ([], [WALK, WALK], [{**WALK, "isa": name} for name in "abcd"]):
        with pytest.raises(TramplabError, match="one to 3 walks of different ISAs"):
            stepper(walks, {}, WATCH)


# -- text


def test_two_walks_of_one_thing_are_told_by_one_text():
    result = explore(scheme("riscv64-pair-target").subject(), 1)
    walks = strips(result)
    assert segments(walks)[0] == (START, 1) and sum(width for _, width in segments(walks)) == len(result.schedule) + 1
    made = stepper(walks, {PATCHER: {(START, "fence.i"): "A note."}}, "Watch t0.", "what happens")
    assert made.text == "Watch t0.\n\nwhat happens" and made.html.count("<details") == 1 and "<pre" in made.html
    assert "A note." in made.html
    with pytest.raises(TramplabError, match="about no step"):
        stepper(walks, {PATCHER: {(START, "isb"): "No."}}, "Watch t0.", "what happens")


def test_text_has_every_step_its_changes_milestones_and_notes():
    lines = walk_text(WALK, {1: "A remark " + "that is long " * 6}, {("save", 1): "For all."}).splitlines()
    assert lines[:3] == ["arm64 v0: f(1) = 2", "", "-- site ".ljust(66, "-")]
    assert lines[3:5] == ["f  [site]", "  0  bl tramp                  x30=f+0x4"]
    assert lines[7:9] == ["  0  stp x0, x1, [sp]     [S-0x10]=1", " " * 26 + "[S]=a_very_long_symbol_on_the_stack+0x10"]
    assert lines[9].startswith("     # A remark that") and lines[10].startswith("     # ")
    assert lines[11:13] == ["  1  cbnz x0, tramp            <[counter]", "     # For all."]
    assert max(map(len, lines)) <= 66


def test_the_text_of_the_study_shows_all_steps_in_66_columns(walks):
    text = first_callback.body(None).text
    assert max(map(len, text.splitlines())) <= 66
    assert len(re.findall(r"^ *\d+  \S", text, re.M)) == sum(len(w["steps"]) for w in walks)
    flat = " ".join(text.replace("#", " ").split())
    for isa, notes in first_callback.NOTES.items():
        for note in notes.values():
            assert flat.count(" ".join(note.split())) >= (len(walks) if not isa else 1), note


def test_the_study_counts_what_the_stepper_shows(walks):
    rows = first_callback.rows()
    for w in walks:
        part = rows[rows["isa"] == w["isa"]]
        assert list(part["from"]) == list(w["milestones"])
        totals = [len(w["steps"]), sum(len(s[3]) for s in w["steps"]), sum(len(s[2]) for s in w["steps"])]
        assert [part[column].sum() for column in ("instructions", "loads", "stores")] == totals
