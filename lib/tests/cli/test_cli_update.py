"""The command that rewrites golden tables makes again what its sources or data have changed for, and nothing else."""

from support.base.data import copied
from tramplab_book import commands
from tramplab_book.places import state_of_rows


def test_a_text_of_the_same_sources_is_made_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path))
    made = []

    def make() -> str:
        made.append("")
        return f"table {len(made)}\n"

    texts = [commands._made(folder, "a.txt", make) for folder in ("updated-1", "updated-1", "updated-2")]
    assert texts == ["table 1\n", "table 1\n", "table 2\n"]


def test_rows_are_of_facts_and_measurements_and_of_no_claims(tmp_path, monkeypatch):
    folder = copied(tmp_path, monkeypatch)
    before = state_of_rows()
    for name, other in (("claims.yml", False), ("findings/direct.yml", False), ("published.csv", True), ("releases.yml", True)):
        assert (folder / name).is_file()
        with (folder / name).open("a", encoding="utf-8") as f:
            f.write("\n")
        assert (state_of_rows() != before) == other, name
        before = state_of_rows()


def test_a_study_that_there_is_not_is_named_before_anything_is_written(tramplab):
    status, out, err = tramplab("update", "callback")
    assert (status, out) == (2, "") and "did you mean callbacks" in err
