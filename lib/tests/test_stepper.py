"""The stepper: its data, its text, and the element in a browser."""

import gzip
import json
import re

import pytest
from browser import PHONE, READERS, visit

from tramplab.errors import TramplabError
from tramplab.publish.stepper import Note, stepper, walk_text
from tramplab.studies import first_callback

PAGE = "book/trampoline-variants"
WALK = {
    "isa": "arm64",
    "sp": "sp",
    "config": "arm64 v0",
    "call": "f(1) = 2",
    "symbols": [["f", "site"], ["tramp</script>", "trampoline"]],
    "code": [[0, 0, "bl tramp"], [1, 0, "stp x0, x1, [sp]"], [0, 4, "ret"]],
    "start": ["x0=1", "sp=S"],
    "steps": [
        [0, ["x30=f+0x4"], []],
        [1, [], ["S-16=1", "S-8=a_very_long_symbol_in_the_stack+0x10"]],
        [2, ["x0=2"], []],
    ],
    "milestones": {"site": 0, "save": 1, "return": 2},
}


@pytest.fixture(scope="module")
def walks():
    return first_callback.walks()


def data_in(html: str) -> dict:
    return json.loads(re.search(r"<script[^>]*>(.*?)</script>", html, re.S)[1])


def test_text_has_every_step_its_changes_milestones_and_notes():
    text = walk_text(WALK, {1: ["A remark " + "that is long " * 6]})
    lines = text.splitlines()
    assert lines[:4] == ["arm64 v0: f(1) = 2", "f  [site]", "-- site", "   0  bl tramp" + " " * 26 + "x30=f+0x4"]
    assert lines[6:8] == ["   1  stp x0, x1, [sp]", " " * 10 + "[S-16]=1 [S-8]=a_very_long_symbol_in_the_stack+0x10"]
    assert lines[8].startswith("      # A remark that") and lines[9].startswith("        ")
    assert max(map(len, lines)) <= 66


def test_the_text_of_the_study_shows_all_steps_in_66_columns(walks):
    text = first_callback.body(None).text
    assert max(map(len, text.splitlines())) <= 66
    assert len(re.findall(r"^ +\d+  ", text, re.M)) == sum(len(w["steps"]) for w in walks)
    flat = " ".join(text.replace("#", " ").split())
    assert all(" ".join(note.text.split()) in flat for note in first_callback.NOTES)


def test_text_cannot_end_the_script_element():
    made = stepper([WALK]).html
    assert made.count("</script>") == 1 and data_in(made)["walks"][0]["symbols"] == WALK["symbols"]
    assert "tramp&lt;/script&gt;" in made


def test_notes_are_pinned_to_the_step_they_are_about():
    made = stepper([WALK], [Note("arm64", "save", "", "Here."), Note("arm64", "site", "ret", "There.")])
    assert data_in(made.html)["walks"][0]["notes"] == [[1, ["Here."]], [2, ["There."]]]


@pytest.mark.parametrize(
    "note, complaint",
    [
        (
            Note("arm64", "save", "nop", "x"),
            "note is about no step: from save on, no instruction on arm64 begins with 'nop'",
        ),
        (Note("arm64", "body", "", "x"), "unknown milestone of the walk on arm64 'body'"),
        (Note("arm63", "save", "", "x"), "unknown walk for a note 'arm63'; did you mean arm64"),
    ],
)
def test_a_note_about_nothing_is_refused(note, complaint):
    with pytest.raises(TramplabError, match=re.escape(complaint)):
        stepper([WALK], [note])


def test_too_many_walks_are_refused():
    for walks in ([], [WALK, WALK], [{**WALK, "isa": name} for name in "abcd"]):
        with pytest.raises(TramplabError, match="one to 3 walks of different ISAs"):
            stepper(walks)


def test_the_data_is_small(walks):
    """As it goes over the wire; most of it is the text of the code, as a call without loops runs each instruction once."""
    script = re.search(r"<script[^>]*>(.*?)</script>", first_callback.body(None).html, re.S)[1]
    assert len(gzip.compress(script.encode())) / sum(len(w["steps"]) for w in walks) <= 30


# -- in a browser


def current(tab) -> list[str]:
    """The instruction each ISA is at."""
    return [line.inner_text() for line in tab.query_selector_all('tl-steps li[aria-current="step"] code')]


def expected(walks, positions) -> list[str]:
    return [w["code"][w["steps"][n][0]][2] for w, n in zip(walks, positions, strict=True)]


@READERS
def test_by_keyboard(browser, bases, walks, transport, size, scheme):
    marks = [w["milestones"] for w in walks]

    def look(tab):
        tab.focus("tl-steps .tl-board")
        assert current(tab) == expected(walks, [0, 0, 0])
        tab.keyboard.press("ArrowRight")
        assert current(tab) == expected(walks, [1, 1, 1])
        for name in list(marks[0])[1:]:
            tab.keyboard.press("n")
            assert current(tab) == expected(walks, [m[name] for m in marks]), name
            assert tab.inner_text("tl-steps .tl-said").endswith(f": {name}")
        tab.keyboard.press("ArrowLeft")
        assert current(tab) == expected(walks, [m["return"] - 1 for m in marks])
        tab.keyboard.press("p")
        assert current(tab) == expected(walks, [m["body"] for m in marks])
        tab.keyboard.press("Home")
        tab.keyboard.press("PageDown")
        assert tab.url.endswith("-steps=10") and tab.input_value("tl-steps input[type=range]") == "10"
        tab.keyboard.press("PageUp")
        tab.keyboard.press("End")
        assert current(tab) == expected(walks, [len(w["steps"]) - 1 for w in walks])

    assert visit(browser, bases[transport], PAGE, size, scheme, look=look).problems() == []


def test_the_shorter_stretch_waits_so_that_milestones_stay_side_by_side(browser, bases, walks):
    marks = [w["milestones"] for w in walks]
    lengths = [m["restore"] - m["callback"] for m in marks]
    assert len(set(lengths)) > 1, "the callbacks are equally long: nothing to wait for"

    def look(tab):
        tab.click("tl-steps .tl-stops button:has-text('callback')")
        for _ in range(max(lengths) - 1):
            tab.click("tl-steps button[aria-label='step forward']")
        assert current(tab) == expected(walks, [m["restore"] - 1 for m in marks])
        tab.click("tl-steps button[aria-label='step forward']")
        assert current(tab) == expected(walks, [m["restore"] for m in marks])

    visit(browser, bases["file"], PAGE, look=look)


def test_state_is_what_the_steps_add_up_to(browser, bases, walks):
    """At the end, by jumping there and by walking there; what the last step changed is marked."""

    def table(tab, i, which):
        rows = tab.query_selector_all("tl-steps .tl-walk")[i].query_selector_all(f"table:nth-of-type({which}) tr")
        return {r.query_selector("th").inner_text(): r.query_selector("td").inner_text() for r in rows}

    def look(tab):
        tab.focus("tl-steps .tl-board")
        tab.keyboard.press("End")
        for i, w in enumerate(walks):
            registers, memory = dict(item.split("=", 1) for item in w["start"]), {}
            for _, changed, written in w["steps"]:
                registers |= dict(item.split("=", 1) for item in changed)
                memory |= dict(item.split("=", 1) for item in written)
            shown = table(tab, i, 1)
            assert shown == {name: registers[name] for name in shown} and len(shown) > 5
            assert table(tab, i, 2) == memory
            marked = tab.query_selector_all("tl-steps .tl-walk")[i].query_selector_all("tr.tl-now")
            assert len(marked) == len(w["steps"][-1][1]) + len(w["steps"][-1][2])

    visit(browser, bases["file"], PAGE, look=look)


def test_a_step_has_an_address(browser, bases):
    """A link to a step opens there; a link to anything else on the page does not move the stepper."""

    def look(tab):
        element = tab.get_attribute("tl-steps", "id")
        assert current(tab)
        before = current(tab)
        tab.evaluate(f"location.hash = '{element}=7'")
        tab.wait_for_function("document.querySelector('tl-steps .tl-said').textContent.startsWith('8 of')")
        assert current(tab) != before
        at = current(tab)
        tab.evaluate("location.hash = 'single-callback'")
        tab.wait_for_timeout(100)
        assert current(tab) == at
        tab.evaluate(f"location.hash = '{element}=100000'")
        tab.wait_for_function("!document.querySelector('tl-steps .tl-said').textContent.startsWith('8 of')")

    assert visit(browser, bases["file"], PAGE, look=look).errors == []


def test_a_phone_shows_one_isa_at_a_time(browser, bases, walks):
    def look(tab):
        for i, w in enumerate(walks):
            tab.check(f"tl-steps .tl-tabs label:nth-of-type({i + 1}) input")
            visible = [
                s.get_attribute("aria-label") for s in tab.query_selector_all("tl-steps .tl-walk") if s.is_visible()
            ]
            assert visible == [w["isa"]]

    visit(browser, bases["file"], PAGE, PHONE, look=look)


def test_without_javascript_the_whole_run_is_there_as_text(browser, bases, walks):
    def look(tab):
        texts = tab.query_selector_all("tl-steps pre")
        assert len(texts) == len(walks)
        for summary in tab.query_selector_all("tl-steps summary"):
            summary.click()
        for text, w in zip(texts, walks, strict=True):
            assert text.is_visible() and text.inner_text() in first_callback.body(None).text
            assert len(re.findall(r"^ +\d+  ", text.inner_text(), re.M)) == len(w["steps"])

    visit(browser, bases["file"], PAGE, javascript=False, look=look)
