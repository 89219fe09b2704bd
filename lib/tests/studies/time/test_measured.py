"""Whatever a machine measures, is called, lacks or has kept: figures, sentences and text twins show it, and it fits."""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
import types
from pathlib import Path

import pytest
from docutils import nodes
from docutils.utils import new_document
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support import ROOT
from support.native.machines import CPUS, FILES, ONE_DIGIT_MORE, hook_results, result, shape_results, shaped
from tramplab.base.errors import TramplabError
from tramplab.estimate import cycles
from tramplab.estimate.cores import Core
from tramplab.lab.run import Run
from tramplab.native import command
from tramplab_book.publish.cite import edition
from tramplab_book.publish.figures.files import FOLDER
from tramplab_book.publish.figures.fitted import fitted_table
from tramplab_book.publish.figures.show import show
from tramplab_book.studies.time import native_hooks, native_machine, native_shapes

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import book_search
import text_writer

EDITIONS = ("", "0123456789ab", "0123456789ab-dirty")
REASONS = st.sampled_from(
    [
        "native runs need Linux, not Darwin; counts and estimates work everywhere.",
        "this machine could not be timed (X: " + "y" * 90 + ").",
    ]
)
#: Signs that a number was missing where a sentence or cell wanted one.
HOLES = re.compile(r"\b(nan|None|inf|NaT)\b|<NA>")


def saved_results(results):
    """What may lie in data/native/: nothing, or up to five files."""
    return FILES.flatmap(lambda names: st.fixed_dictionaries(dict.fromkeys(names, results)))


def shown(study: types.ModuleType, own, saved, now: str):
    """Everything that the page shows of a study: figures and sentences."""

    def own_times(kind):
        if isinstance(own, str):
            raise TramplabError(own)
        return own

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_hooks, "own", own_times)
        patch.setattr(native_machine, "own", own_times)
        patch.setattr(study, "estimate", MADE_UP[study])
        patch.setattr(cycles, "estimate", made_up)
        patch.delenv(FOLDER, raising=False)
        name = now[:7] + ("+" if now.endswith("-dirty") else "") or edition.UNKNOWN
        current = dataclasses.replace(edition.current(), commit=now, name=name)
        patch.setattr(edition, "current", lambda: current)
        frame = study.frame(saved)
        figures = [show(study, figure.id, frame) for figure in study.FIGURES]
        return figures, [str(said) for said in study.numbers(frame).values()]


def made_up(hooked: Run, unhooked: Run, core: Core) -> cycles.Estimate:
    """In place of an estimate, which takes a twentieth of a second and whose size is not what is tried: by length, to any size."""
    longer = len(hooked.steps) - len(unhooked.steps)
    middle = longer * 10.0 ** (longer % 7 - 2)
    return cycles.Estimate(middle, core)


#: What studies keep of estimates, apart, so that no other test is given what is made up.
MADE_UP = {study: functools.cache(study.estimate.__wrapped__) for study in (native_hooks, native_shapes)}


def twin(paragraphs: list[str], literals: list[str]) -> list[str]:
    """The lines of a page's text twin that has these."""
    document = new_document("page")
    for text in paragraphs:
        document += nodes.paragraph(text, text)
    for text in literals:
        document += nodes.literal_block(text, text)
    settings = types.SimpleNamespace(text_newlines="unix", text_sectionchars="", text_add_secnumbers=False)
    settings.text_secnumber_suffix = " "
    builder = types.SimpleNamespace(config=settings, env=None, current_docname="page", secnumbers={})
    writer = text_writer.Translator(document, builder)
    document.walkabout(writer)
    return writer.body.splitlines()


def check(study, own, saved, now):
    figures, sentences = shown(study, own, saved, now)
    lines = twin(sentences, [figure.text for figure in figures])
    assert max(map(len, lines)) <= 72
    for figure in figures:
        assert max(map(len, figure.text.splitlines()[1:])) <= 66, "below the question"
        assert max(len(line) for line in figure.citation.splitlines() if "://" not in line) <= 72
        assert not HOLES.search(figure.text) and figure.html.count("<script") <= 1
    for said in sentences:
        assert not HOLES.search(said) and "  " not in said
    return figures, sentences


@settings(max_examples=40)
@given(hook_results() | REASONS, saved_results(hook_results()), st.sampled_from(EDITIONS))
@example(ONE_DIGIT_MORE, {"epyc": ONE_DIGIT_MORE}, EDITIONS[1])
@example("switched off.", {}, "")
def test_hooks_of_any_machine_are_shown(own, saved, now):
    figures, _ = check(native_hooks, own, saved, now)
    here = figures[1].text
    if isinstance(own, str):
        assert own[:30] in " ".join(here.split())
    else:
        assert all(hook in here for hook in (*own.unquiet, *own.unsteady) if hook != "none")
        assert all(failure[:20] in " ".join(here.split()) for failure in own.failures)


@settings(max_examples=30)
@given(shape_results() | REASONS, saved_results(shape_results()), st.sampled_from(EDITIONS))
@example("switched off.", {}, "")
def test_shapes_of_any_machine_are_shown(own, saved, now):
    check(native_shapes, own, saved, now)


@settings(max_examples=100)
@given(hook_results() | shape_results())
def test_the_command_prints_any_result(made):
    made.provenance["command"] = "tramplab native " + "x" * 100
    text = command.as_text(made)
    assert max(map(len, text.splitlines())) <= 72 and not HOLES.search(text)


def test_what_does_not_agree_is_marked_and_not_ranked():
    times = {"direct": 4.0, "ops": 8.0, "ops:2": 30.0}
    bad = native_hooks.frame({"here": result("x86_64", times, unquiet=("ops:2",))})
    assert list(native_hooks.table(bad)["hook"])[:3] == ["direct", "ops", "ops:2 ?"]
    shapes = {f"shape-{n}-0-balanced": float(n) for n in (2, 5, 8, 11, 14)}
    frame = native_shapes.frame({"here": shaped("arm64", shapes, unquiet=("shape-5-0-balanced",))})
    assert set(frame["shape"]) == {"2-0", "8-0", "11-0", "14-0"}


def test_no_other_page_shows_the_machine():
    """One figure is the only cell of all pages that asks for this machine's times."""
    asking = [
        (page.name, line)
        for page in sorted((Path(ROOT) / "book").glob("*.md"))
        for line in page.read_text("utf-8").splitlines()
        if re.search(r"fig-here-|native\.(measure|time_)|\bhere\(\)|kept\.own|cli\.main\(\[\"native", line)
        and line.lstrip().startswith(("show(", "cli.main", "print(", "quote("))
    ]
    assert asking == [("counts-to-time.md", 'show(native_hooks, "fig-here-hooks")')]


def test_what_the_machine_measured_is_not_searched_for():
    """Two builds of a commit on two machines have the same search."""
    machine = result("x86_64", {"direct": 4321.0}, cpu=CPUS["x86_64"][1])
    figures, _ = shown(native_hooks, machine, {"a": result("x86_64", {"direct": 1234.0}, cpu=CPUS["x86_64"][2])}, "")
    page = "".join(f.html for f in figures)
    (section,) = book_search.sections(f'<section id="s"><h2>Title</h2>{page}</section>')
    shared, own = (figure.text.splitlines()[0] for figure in figures)
    assert shared in section.text and own not in section.text and own in figures[1].html


# -- tables that always fit


@given(
    st.lists(st.text("abc-_ ", min_size=1, max_size=100), min_size=1, max_size=8, unique=True),
    st.lists(st.text(max_size=120), min_size=1, max_size=4),
    st.integers(12, 80),
)
def test_a_table_of_anything_fits(columns, cells, width):
    import pandas as pd

    rows = [[f"{cell}{i}" for i in range(len(columns))] for cell in cells]
    frame = pd.DataFrame(rows, columns=columns)
    for split in (None, columns[0] if len(columns) > 1 else None):
        text = fitted_table(frame, width, split)
        assert max(map(len, text.splitlines())) <= width and text.endswith("\n")
