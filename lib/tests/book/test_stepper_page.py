"""The stepper in a browser: keys, state, notes, addresses, a phone, and no scripts."""

import re

import pytest

from support.plugins.browser import DESKTOP, PHONE, SCREENS, visit
from tramplab_book.publish.stepper.stepper import segments, step_of
from tramplab_book.studies.variants.one_callback import first_callback

PAGE, FIGURE = "book/trampoline-variants", "fig-first-callback"


@pytest.fixture(scope="module")
def walks():
    return first_callback.walks()


def current(tab) -> list[str]:
    """The instruction each ISA is at."""
    return tab.eval_on_selector_all(
        '#fig-first-callback tl-steps .tl-code [aria-current="step"]', "all => all.map(e => e.textContent)"
    )


def state(tab, which: int) -> dict[str, tuple[str, str]]:
    """Of one ISA, every register and word: name -> (mark, value)."""
    script = "all => all.map(li => [...li.children].map(e => e.textContent))"
    rows = tab.eval_on_selector_all(
        f"#fig-first-callback tl-steps .tl-walk:nth-child({which + 1}) .tl-held li:not(.tl-gap)", script
    )
    return {name: (mark, value) for mark, name, _, value in rows}


def where(tab) -> str:
    return tab.text_content("#fig-first-callback tl-steps .tl-where a")


def at_steps(walks, numbers) -> list[str]:
    return [w["code"][w["steps"][n][0]][2] for w, n in zip(walks, numbers, strict=True)]


@SCREENS
def test_by_keyboard(browser, bases, walks, size, scheme):
    marks = [w["milestones"] for w in walks]

    def look(tab):
        press = tab.keyboard.press
        assert "#" not in tab.url, "the address is the reader's until they step"
        tab.focus("#fig-first-callback tl-steps .tl-board")
        assert current(tab) == at_steps(walks, [0, 0, 0])
        press("ArrowRight")
        assert current(tab) == at_steps(walks, [1, 1, 1])
        for name in list(marks[0])[1:]:
            press("n")
            assert (current(tab), where(tab)) == (at_steps(walks, [m[name] for m in marks]), name)
        press("ArrowLeft")
        assert current(tab) == at_steps(walks, [m["return"] - 1 for m in marks])
        press("p")
        assert (current(tab), where(tab)) == (at_steps(walks, [m["body"] for m in marks]), "body")
        press("Home")
        press("PageDown")
        press("PageDown")
        press("PageUp")
        assert current(tab) == at_steps(walks, [10, 10, 10])
        assert tab.url.endswith(f"#{FIGURE}={where(tab)}") and where(tab).startswith("save+")
        press("Control+ArrowRight")
        assert current(tab) == at_steps(walks, [10, 10, 10]), "keys with Control are the browser's"
        press("End")
        press("ArrowRight")
        assert current(tab) == at_steps(walks, [len(w["steps"]) - 1 for w in walks])
        tab.focus("#fig-first-callback tl-steps input")  # the slider listens to the same keys
        press("Home")
        press("ArrowRight")
        assert current(tab) == at_steps(walks, [1, 1, 1])
        assert tab.get_attribute("#fig-first-callback tl-steps input", "aria-valuetext").startswith(
            "site+1, step 2 of "
        )

    assert visit(browser, bases["file"], PAGE, size, scheme, look=look).problems() == []


def test_the_shorter_stretch_waits_so_that_milestones_stay_side_by_side(browser, bases, walks):
    marks = [w["milestones"] for w in walks]
    lengths = [m["restore"] - m["callback"] for m in marks]
    assert len(set(lengths)) > 1, "the callbacks are equally long: nothing to wait for"

    def look(tab):
        tab.click("#fig-first-callback tl-steps button:has-text('callback')")
        for _ in range(max(lengths) - 1):
            tab.click("#fig-first-callback tl-steps button[aria-label='one step on']")
        assert current(tab) == at_steps(walks, [m["restore"] - 1 for m in marks])
        waiting = tab.eval_on_selector_all(
            "#fig-first-callback tl-steps .tl-isa span", "all => all.map(e => e.textContent === 'waits here')"
        )
        assert waiting == [length < max(lengths) for length in lengths]
        for which, waits in enumerate(waiting):
            assert not waits or {mark for mark, _ in state(tab, which).values()} == {""}, "it does nothing meanwhile"
        tab.click("#fig-first-callback tl-steps button[aria-label='one step on']")
        assert current(tab) == at_steps(walks, [m["restore"] for m in marks])

    visit(browser, bases["file"], PAGE, look=look)


def test_state_is_what_the_steps_add_up_to(browser, bases, walks):
    """At every position of the reader's walk; what the step changed, wrote and read is marked."""

    def look(tab):
        tab.focus("#fig-first-callback tl-steps .tl-board")
        held = [{**w["registers"], **w["memory"]} for w in walks]
        for number in range(max(len(w["steps"]) for w in walks)):
            if number:
                tab.keyboard.press("ArrowRight")
            if number >= walks[0]["milestones"]["callback"]:
                break  # from here on some wait; the end is compared below
            for which, w in enumerate(walks):
                compare(tab, which, w["steps"][number], held[which])
        tab.keyboard.press("End")
        for which, w in enumerate(walks):
            for step in w["steps"]:
                held[which] |= step[1] | step[2]
            compare(tab, which, w["steps"][-1], held[which])

    def compare(tab, which, step, held):
        _, changed, stores, loads = step
        held |= changed | stores
        shown = state(tab, which)
        assert {name: value for name, (_, value) in shown.items()} == {name: held.get(name, "·") for name in shown}
        assert len(shown) > 15
        marks = dict.fromkeys(loads, "R") | dict.fromkeys(stores, "W") | dict.fromkeys(changed, "•")
        assert {name: mark for name, (mark, _) in shown.items() if mark} == marks

    visit(browser, bases["file"], PAGE, look=look)


def test_notes_appear_at_their_step_and_do_not_move_the_page(browser, bases, walks):
    def look(tab):
        seen, heights = tab.evaluate("""() => {
            const steps = document.querySelector("#fig-first-callback tl-steps");
            const board = steps.querySelector(".tl-board");
            const on = steps.querySelector("button[aria-label='one step on']");
            const seen = [], heights = [];
            for (let n = 0; n <= +steps.querySelector("input").max; n++, on.click()) {
              heights.push(board.offsetHeight);
              const notes = [...steps.querySelectorAll(".tl-notes p")];
              seen.push(notes.filter((e) => getComputedStyle(e).visibility === "visible").map((e) => e.textContent));
            }
            return [seen, heights];
        }""")
        assert len(set(heights)) == 1
        own = first_callback.NOTES
        assert {text for texts in seen for text in texts} == {text for notes in own.values() for text in notes.values()}
        widths = [width for _, width in segments(walks)]
        starts = {name: sum(widths[:n]) for n, (name, _) in enumerate(segments(walks))}
        for (name, offset), text in own[""].items():
            assert [n for n, texts in enumerate(seen) if text in texts] == [starts[name] + offset]
        for w in walks:
            for where, text in own[w["isa"]].items():
                step = step_of(w, *where)
                name, start = [(name, at) for name, at in w["milestones"].items() if at <= step][-1]
                assert text in seen[starts[name] + step - start]
        dots = tab.eval_on_selector_all(
            "#fig-first-callback tl-steps .tl-lane", "all => all.map(e => e.textContent.length)"
        )
        pins = [len({step_of(w, *where) for where in own[w["isa"]]}) for w in walks]
        assert all(pin <= dot <= pin + len(own[""]) for pin, dot in zip(pins, dots, strict=True))

    visit(browser, bases["file"], PAGE, look=look)


# Go to an address on the page; done when the stepper, which asked first, has been told.
GO = """(address) => new Promise((done) => {
  addEventListener("hashchange", done, { once: true });
  location.hash = address;
})"""


def test_a_step_has_an_address(browser, bases):
    """A link to a step opens there; a link to anything else on the page, or to nothing, does not move the stepper."""

    def look(tab):
        for address, leads_to in (
            (f"{FIGURE}=save+3", "save+3"),
            (f"{FIGURE}=callback", "callback"),
            (f"{FIGURE}=callback+1000", "callback+4"),
            ("single-callback", "callback+4"),
            ("fig-single-callback=save", "callback+4"),
            (f"{FIGURE}=no-such-place+1", "callback+4"),
            ("100%", "callback+4"),
            (f"{FIGURE}=save+", "save"),
        ):
            tab.evaluate(GO, address)
            assert where(tab) == leads_to, address

    assert visit(browser, bases["file"], PAGE, look=look).errors == []


@pytest.mark.parametrize("transport", ["http", "file"])
def test_an_address_opens_at_its_step_with_the_stepper_in_view(browser, bases, transport):
    def look(tab):
        assert where(tab) == "restore+5" and tab.url.endswith("=restore+5")
        top = tab.evaluate("document.querySelector('#fig-first-callback tl-steps').getBoundingClientRect().top")
        assert 0 <= top < DESKTOP[1] / 4

    def go_there(tab):
        tab.goto("about:blank")  # from the page itself it would be a step within it, and a reload goes where one was
        tab.goto(f"{bases[transport]}/{PAGE}.html#{FIGURE}=restore+5")
        look(tab)

    assert visit(browser, bases[transport], PAGE, look=go_there).errors == []


STEPPERS = ["trampoline-variants", "trampoline-saving", "direct-returns", "patching-schedules", "pt-regs-copy", "kretprobe-steps"]


@pytest.mark.parametrize("page", STEPPERS)
def test_a_board_is_within_a_screen_and_shows_what_the_step_is_about(browser, bases, page):
    """What it is to be looked at for is above; the rows that a step changed are in view; no two boards have the same name."""

    def look(tab):
        boards = tab.query_selector_all("tl-steps .tl-board")
        assert len({board.get_attribute("aria-label") for board in boards}) == len(boards) > 0
        assert tab.query_selector_all("tl-steps section") == [], "a region would need a name of its own"
        for board in boards:
            assert board.evaluate("e => e.closest('tl-steps').previousElementSibling.className") == "tl-watch"
            board.focus()
            heights = {board.bounding_box()["height"]}
            for _ in range(40):
                tab.keyboard.press("ArrowRight")
                hidden = board.evaluate("""e => [...e.querySelectorAll(".tl-held")].flatMap((list) => {
                  const rows = [...list.querySelectorAll(".tl-now")], inside = list.getBoundingClientRect();
                  const seen = rows.filter((row) => row.getBoundingClientRect().bottom <= inside.bottom + 1
                    && row.getBoundingClientRect().top >= inside.top - 1);
                  return rows.length && !seen.length ? [rows[0].textContent] : [];
                })""")
                assert hidden == []
            heights.add(board.bounding_box()["height"])
            assert len(heights) == 1 and max(heights) <= 560
            tab.keyboard.press("Home")

    visit(browser, bases["file"], f"book/{page}", look=look)


def test_all_rows_and_registers_that_never_change_unfold(browser, bases, walks):
    def look(tab):
        board = tab.query_selector("#fig-first-callback tl-steps .tl-board")
        folded = board.bounding_box()["height"]
        tab.click("#fig-first-callback .tl-folds button")
        bottoms = "all => all.map((list) => [list, list.lastElementChild].map((e) => e.getBoundingClientRect().bottom))"
        lists = tab.eval_on_selector_all("#fig-first-callback .tl-held", bottoms)
        assert all(last <= bottom + 1 for bottom, last in lists) and board.bounding_box()["height"] > folded
        tab.click("#fig-first-callback .tl-folds button")
        assert board.bounding_box()["height"] == folded
        tab.click("#fig-first-callback .tl-same summary")
        said = tab.eval_on_selector_all("#fig-first-callback .tl-same p", "all => all.map((p) => p.innerText)")
        for text, w in zip(said, walks, strict=True):
            names = [part.partition("=")[0] for part in text.removeprefix(w["isa"]).strip().split(", ")]
            changing = {name for _, changed, _, _ in w["steps"] for name in changed}
            assert set(names) < set(w["registers"]) and not set(names) & changing

    visit(browser, bases["file"], PAGE, look=look)


def test_a_phone_shows_one_isa_at_a_time(browser, bases, walks):
    def look(tab):
        tab.click("#fig-first-callback tl-steps button:has-text('restore')")
        for w in walks:
            tab.click(f"#fig-first-callback tl-steps .tl-tabs button:has-text('{w['isa']}')")
            sections = tab.query_selector_all("#fig-first-callback tl-steps .tl-walk")
            assert [s.get_attribute("aria-label") for s in sections if s.is_visible()] == [w["isa"]]
            assert (
                tab.get_attribute(f"#fig-first-callback tl-steps button:has-text('{w['isa']}')", "aria-pressed")
                == "true"
            )
            inside = "e => [e.offsetTop, e.parentElement.scrollTop, e.parentElement.clientHeight]"
            line, top, height = tab.eval_on_selector(".tl-shown .tl-code [aria-current]", inside)
            assert top <= line < top + height, "the current instruction is in view"

    visit(browser, bases["file"], PAGE, PHONE, look=look)


def test_without_javascript_the_whole_run_is_there_as_text(browser, bases, walks):
    def look(tab):
        texts = tab.query_selector_all("#fig-first-callback tl-steps pre")
        assert len(texts) == len(walks)
        for text, w in zip(texts, walks, strict=True):
            assert text.is_visible() and text.inner_text().partition("\n\n")[2] in first_callback.body(None).text
            assert len(re.findall(r"^ *\d+  \S", text.inner_text(), re.M)) == len(w["steps"])

    assert visit(browser, bases["file"], PAGE, PHONE, javascript=False, look=look).problems() == []
