"""Rows that are made once: each caller has its own, whoever made them and wherever they were kept."""

import pandas as pd
import pytest

from support.complaints import complaint
from tramplab_book.studies import memo
from tramplab_book.studies.variants.one_callback import first_callback


@pytest.fixture(params=["in memory", "in a build's folder"])
def made(request, tmp_path, monkeypatch):
    """A function that makes nested rows once, and how often it has run."""
    if request.param == "in memory":
        monkeypatch.delenv(memo.FOLDER, raising=False)
    else:
        monkeypatch.setenv(memo.FOLDER, str(tmp_path))
    runs = []

    def rows() -> pd.DataFrame:
        runs.append(1)
        frame = pd.DataFrame({"isa": ["arm64"], "path": [["site", {"at": [1, 2]}]]})
        frame.attrs["units"] = {"path": ["steps"]}
        return frame

    return rows, runs


def test_nothing_that_a_caller_changes_reaches_another(made):
    make, runs = made
    rows = memo.once(make)
    fresh = make()
    for _ in range(2):
        frame = rows()
        assert frame.to_dict() == fresh.to_dict() and frame.attrs == fresh.attrs
        frame["path"][0].append("changed")
        frame["path"][0][1]["at"].clear()
        frame.loc[0, "isa"] = "changed"
        frame.attrs["units"]["path"].append("changed")
    assert len(runs) == 2, "one run for the comparison, one for all callers"


def test_pages_of_a_build_share_one_run(tmp_path, monkeypatch, made):
    """Another process has not the memory of this one, and finds the folder."""
    make, runs = made
    monkeypatch.setenv(memo.FOLDER, str(tmp_path))
    here, there = memo.once(make), memo.once(make)
    assert here().to_dict() == there().to_dict() and len(runs) == 1


def test_a_folder_that_will_not_do_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").touch()

    def numbers() -> list[int]:
        return [1, 2]

    for where, why in (("nowhere", "No such file or directory"), ("file", "Not a directory")):
        monkeypatch.setenv(memo.FOLDER, str(tmp_path / where))
        message = complaint(memo.once(numbers))
        assert message == f"cannot keep rows in {tmp_path / where} ({why}): set TRAMPLAB_ROWS to a folder that can be written."


def test_a_study_whose_rows_are_lists_hands_out_its_own():
    changed, untouched = first_callback.walks(), first_callback.walks()
    assert changed == untouched and isinstance(changed[0]["steps"], list)
    changed[0]["steps"].clear()
    assert first_callback.walks() == untouched


def test_each_choice_of_arguments_has_its_own_and_another_process_finds_it(tmp_path, monkeypatch):
    monkeypatch.setenv(memo.FOLDER, str(tmp_path))
    runs = []

    def numbers(isa: str, count: int) -> list[int]:
        runs.append((isa, count))
        return [len(isa) * count]

    for told in (memo.each(numbers), memo.each(numbers)):
        assert [told(*chosen) for chosen in (("arm64", 1), ("arm64", 2), ("riscv64", 1))] == [[5], [10], [7]]
        told("arm64", 1).clear()
        assert told("arm64", 1) == [5]
    assert runs == [("arm64", 1), ("arm64", 2), ("riscv64", 1)]
