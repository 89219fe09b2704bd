"""Damaged files of data/: each is refused in one sentence that names it, or read as it is now, which git shows."""

from pathlib import Path

import pytest

from support.base.data import FILES, copied, read
from support.base.edited import check_edits


@pytest.mark.parametrize("name", FILES, ids=lambda name: Path(name).name)
def test_a_damage_is_refused_in_a_sentence_or_read(name, tmp_path, monkeypatch):
    check_edits(copied(tmp_path, monkeypatch), name, read)
