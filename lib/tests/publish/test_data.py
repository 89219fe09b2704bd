"""CITATION.cff and the data files of the book: a mistake is refused in one sentence that says where it is."""

from pathlib import Path

import pytest

from support.base.data import copied
from support.base.edited import check_edits, check_refused
from support.publish.data import CITATION, FILES, read

BOOTED = "findings/booted.yml"
#: Who diagnosed riscv64's hidden callers, and where.
WANG = "who: Wang Han\n        message: 20260528082310.1994388-7-wanghan@linux.alibaba.com\n        "


@pytest.mark.parametrize("name", FILES, ids=lambda name: Path(name).name)
def test_a_damage_is_refused_in_a_sentence_or_read(name, tmp_path, monkeypatch):
    check_edits(copied(tmp_path, monkeypatch), name, read)


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (BOOTED, "is-most:\n    figure: fig-booted", "is-most:\n    figure: fig-found", "say in `prior` who said it before"),
        (BOOTED, "who: Wang Han\n", "since: v6.12\n", "prior, number 1: unknown key 'since'"),
        (BOOTED, "who: Wang Han\n        ", "", "graph-hides-callers: what was said before has `who` and a `message`"),
        (BOOTED, WANG, "", "graph-hides-callers: what is known has in `prior` who knows it."),
        (BOOTED, "    section: findings-graph\n", "", "a fault has `section`, `extent` and `prior`, and nothing else has"),
        (BOOTED, "      until: \"not fixed in v7.3\"\n", "", "segment-is-old-stack, extent has no until."),
        (BOOTED, "withdrawn: >-\n      There is no text for", "not_booted: >-\n      ", "it has a letter, or `withdrawn` says why"),
        (CITATION, 'version: "0.1"', "version: 0.1", "version: a version is written like 0.1, not 0.1; put it in quotes."),
        (CITATION, "license: MIT", "licence: MIT", "the file: unknown key 'licence'; did you mean license or license-url?"),
        (CITATION, "2026-11-21", "21 Nov", "date-released: a day is written like 2026-11-21, not '21 Nov'."),
        (CITATION, "- name: ", "- alias: ", "authors, number 1: an author has a name, or given-names and family-names."),
        (CITATION, "date-released: 2026-11-21", "date-released: 2026-11-31", "date-released: there is no day 2026-11-31."),
    ],
)
def test_a_contradiction_is_refused(tmp_path, monkeypatch, name, old, new, said):
    check_refused(copied(tmp_path, monkeypatch), name, old, new, said, read)
