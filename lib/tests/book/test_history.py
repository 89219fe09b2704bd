"""What the chapter says the kernel did, against data/releases.yml: releases, commits, and how well they are known."""

import re

import pytest

from tramplab.base.paths import checkout
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab_book.publish.cite import pages

TEXT = (checkout() / "book" / "trampoline-releases.md").read_text("utf-8")
COMMIT = re.compile(r"\b[0-9a-f]{12}\b")


def items() -> list[tuple[str, str, str]]:
    """The items of the section's list: release, how well it is known, and what else is said."""
    tokens = pages.tokens(TEXT)
    label, end = ([t.content for t in tokens].index(name) for name in ("since", "single-callback-limits"))
    found = []
    for token in tokens[label:end]:
        if token.type == "list_item_open":
            found.append("")
        elif token.type == "inline" and token.level > 1:  # a paragraph of the page has level 1
            found[-1] += f"{token.content}\n"
    matches = (re.match(r"\*\*(v\d+\.\d+)\*\*, (\w+)\.(.*)", item, re.DOTALL) for item in found)
    return [m.groups() for m in matches if m]


ITEMS = items()


def changes() -> dict[str, set[tuple[str, str]]]:
    """commit -> the releases since which a feature has it for its source, with how well that is known."""
    found: dict[str, set[tuple[str, str]]] = {}
    for isa in ISAS:
        for feature in releases.feature_names(isa):
            for interval in releases.intervals(isa, feature):
                for commit in COMMIT.findall(releases.source(interval.source).commit):
                    if interval.since:
                        found.setdefault(commit, set()).add((interval.since, interval.sure))
    return found


def test_there_are_items_in_order():
    assert len(ITEMS) >= 10
    order = [releases.parse(release) for release, _, _ in ITEMS]
    assert order == sorted(order) and {sure for _, sure, _ in ITEMS} <= {"read", "inferred", "recalled"}


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item[0])
def test_an_item_agrees_with_the_facts_of_the_lab(item):
    release, sure, text = item
    assert COMMIT.search(text) or "@" in text, "a commit or a mail"
    known = changes()
    for commit in COMMIT.findall(text):
        if commit in known:
            assert (release, sure) in known[commit], commit


def test_most_items_are_facts_of_the_lab_too():
    """Else the comparison above would compare nothing."""
    known = changes()
    assert len([c for _, _, text in ITEMS for c in COMMIT.findall(text) if c in known]) >= 9
