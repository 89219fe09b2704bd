"""The bench of races ends: a search that does not is named, and the others are said as they come."""

import sys
from pathlib import Path

import pytest

from bench import races
from bench.spin import Checker


class Never:
    """A checker whose search does not end."""

    def __init__(self, *_):
        pass

    def check(self, *_, seconds, **__):
        assert seconds <= races.LONGEST
        raise TimeoutError


def test_a_search_that_does_not_end_is_named(monkeypatch, capsys):
    two = {name: races.SCHEMES[name] for name in ("arm64-bl", "x86_64-store")}
    for name, value in {"SCHEMES": two, "LARGEST": "arm64-bl", "STATES": 1000, "Checker": Never, "missing": lambda: None}.items():
        monkeypatch.setattr(races, name, value)
    races.main()
    said = capsys.readouterr().out
    assert " s for 2 schemes\n" in said and "explorer, 4 threads" in said
    assert f"0.00 s for 0 schemes; not decided in {races.LONGEST} s each: arm64-bl, x86_64-store;" in said and "ratio" not in said
    races.main(0)
    said = capsys.readouterr().out
    assert "explorer, 3 threads: 0.00 s for 0 schemes; not decided" in said, "nothing is begun when the time is over"


def test_a_checker_ends_when_its_time_is_over(tmp_path):
    program = tmp_path / "pan"
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n", "utf-8")
    program.chmod(0o755)
    checker = Checker.__new__(Checker)
    checker._pan, checker._folder, checker._scheme = program, Path(tmp_path), "x"
    with pytest.raises(TimeoutError, match="x: the search did not end in 1 s"):
        checker.check("coherent", seconds=1)
