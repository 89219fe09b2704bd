"""The grid: the same numbers as single measurements, and the same bytes however it was made."""

import contextlib
import csv
import io
import pty
import termios
import time
import tty
from collections.abc import Callable
from typing import TextIO

import pytest

from support.base.grids import SMALL, asked
from support.base.outputs import full
from tramplab import Direct, Kernel, TramplabError, cli
from tramplab.base.processes.progress import Progress
from tramplab.estimate.measure import measure
from tramplab.ftrace.releases import LATEST
from tramplab.grid import cached, cells, command, rows
from tramplab.grid.cells import Unit
from tramplab.isa import ISAS
from tramplab.lab import hooks

# --- What is in it


def wanted(measured: dict) -> dict:
    """The row of a measurement; where a hook is placed, and if a kernel has it, is in the list of hooks."""
    besides = ("broken", "placed", "hypothetical")
    return {**rows.flat({name: value for name, value in measured.items() if name not in besides}), "broken": ""}


@pytest.mark.parametrize("isa", ISAS)
def test_rows_are_what_measure_says(isa):
    """Every hook, on a kernel that has been used before: what a kernel of its own gives."""
    kernel = Kernel(isa)
    idle = kernel.call("two_args", 1, 2)
    for unit in cells.units((isa,), args=(0, 8), callbacks=(1, 3)):
        columns, answer = rows.answer(unit, kernel)
        for callbacks, row in zip(unit.callbacks, answer.rows, strict=True):
            expected = wanted(measure(isa, unit.hook, args=unit.args, callbacks=callbacks))
            assert dict(zip(columns, row, strict=True)) == expected
        assert not answer.refused
    assert kernel.slowpath.ops == []
    assert kernel.call("two_args", 1, 2).counts == idle.counts


def test_many_callbacks_attached_one_by_one():
    """The sixty-fourth row is a call that runs through all of them."""
    (unit,) = cells.units(("x86_64",), ("direct+ops",), args=(2,))
    columns, answer = rows.answer(unit, Kernel("x86_64"))
    expected = wanted(measure("x86_64", "direct+ops", args=2, callbacks=64))
    assert dict(zip(columns, answer.rows[63], strict=True)) == expected


def test_the_whole_grid():
    """Every hook that the release has; several callbacks where the hook takes them; in the order of the lists."""
    units = cells.units()
    assert {(u.isa, u.hook) for u in units} == {
        (isa, h.name) for isa in ISAS for h in hooks.HOOKS.values() if h.there(Kernel(isa).features)
    }
    most = {h.name: min(64, h.most) if h.counts else 1 for h in hooks.HOOKS.values()}
    assert all(u.callbacks == tuple(range(1, most[u.hook] + 1)) for u in units)
    places = [(list(ISAS).index(u.isa), list(hooks.HOOKS).index(u.hook), u.args) for u in units]
    assert places == sorted(set(places)) and {u.args for u in units} == set(range(9))


def test_the_csv(grid):
    """Columns with the names of measure; rows in order; nothing but the table on standard output."""
    status, out, err = grid(*SMALL)
    found = list(csv.DictReader(io.StringIO(out)))
    assert (status, len(found)) == (0, 36) and "rows" in err
    assert list(found[0]) == list(wanted(measure("arm64", "ops")))
    assert [r["hook"] for r in found] == ["none"] * 3 + ["ops"] * 15 + ["direct"] * 3 + ["direct+ops"] * 15
    assert [r["callbacks"] for r in found[:9]] == ["0", "0", "0", "1", "2", "3", "5", "6", "1"]
    assert {r["return_mispredicts_entries"] for r in found} == {"16"}


def test_the_same_bytes_with_any_number_of_processes_and_order(grid, tmp_path):
    outs = [tmp_path / name for name in ("1.csv", "2.csv", "3.csv")]
    other = ["--isa", "arm64", "--hook", "direct+ops,none,ops, direct", "--args", "8,0,1", "--callbacks", "5,6,1,2,2,3"]
    assert grid(*SMALL, "--processes", 1, "--out", outs[0])[0] == 0
    assert grid(*SMALL, "--processes", 3, "--out", outs[1])[0] == 0
    assert grid(*other, "--out", outs[2], "--release", LATEST)[0] == 0
    assert outs[0].read_bytes() == outs[1].read_bytes() == outs[2].read_bytes()


def test_the_units_with_most_rows_are_begun_first(grid, monkeypatch):
    """So that no process is left alone with a long one at the end."""
    seen = asked(monkeypatch)
    assert grid(*SMALL)[0] == 0
    lengths = [len(u.callbacks) for u in seen]
    assert lengths == sorted(lengths, reverse=True) and set(lengths) == {1, 5}


def test_another_release(grid):
    status, out, _ = grid("--isa", "arm64", "--args", "1", "--callbacks", "1", "--release", "v6.1")
    found = {r["hook"]: r for r in csv.DictReader(io.StringIO(out))}
    assert status == 0 and set(found) == {
        h.name for h in hooks.HOOKS.values() if h.there(Kernel("arm64", "v6.1").features)
    }
    expected = wanted(measure("arm64", "ops-regs", "v6.1"))
    assert found["ops-regs"] == {name: str(value) for name, value in expected.items()}


def test_what_a_release_had_broken_is_marked(grid):
    """With the releases, in the last column, which every row has."""
    out = grid("--isa", "x86_64,arm64", "--hook", "ops,direct+ops", "--args", "1", "--callbacks", "1", "--release", "v6.4")[1]
    found = {(r["isa"], r["hook"]): r["broken"] for r in csv.DictReader(io.StringIO(out))}
    assert found.pop(("x86_64", "direct+ops")) == "v6.4 to v6.7" and set(found.values()) == {""} and len(found) == 3


def test_rows_end_where_the_lab_refuses(monkeypatch):
    """A second direct call on a function is refused, so a hook that asks for it has one row and says why."""
    many = hooks.Hook("directs", "several direct calls", "direct", True, lambda k: [Direct() for _ in range(k)])
    monkeypatch.setitem(hooks.HOOKS, "directs", many)
    kernel = Kernel("arm64")
    (unit,) = cells.units(("arm64",), ("directs",), args=(1,), callbacks=(1, 2, 3))
    _, answer = rows.answer(unit, kernel)
    assert len(answer.rows) == 1 and kernel.slowpath.ops == []
    assert answer.refused.startswith(f"directs on arm64 {LATEST}, 1 arguments, 2 callbacks: ")
    (unit,) = cells.units(("arm64",), ("directs",), args=(1,), callbacks=(2, 3))
    with pytest.raises(TramplabError, match=r"directs on arm64 .* 2 callbacks: "):
        command.as_csv([unit], {unit: rows.answer(unit, kernel)})


# --- Progress


@pytest.fixture
def terminal():
    """Opens a terminal of so many columns: a stream to write to, and what closes it and says all that was shown."""
    with contextlib.ExitStack() as opened:

        def of(columns: int) -> tuple[TextIO, Callable[[], str]]:
            shown, own = pty.openpty()
            tty.setraw(own)
            termios.tcsetwinsize(own, (24, columns))
            stream = opened.enter_context(open(own, "w", encoding="utf-8"))
            screen = opened.enter_context(open(shown, "rb", buffering=0))

            def text() -> str:
                stream.close()
                found = b""
                with contextlib.suppress(OSError):  # its end
                    while more := screen.read(1 << 12):
                        found += more
                return found.decode()

            return stream, text

        yield of


@pytest.mark.parametrize("columns", [120, 20])
def test_a_bar_on_a_terminal(terminal, columns):
    """One line that is written over, never wider than the terminal, and ended before anything else is said."""
    stream, shown = terminal(columns)
    with Progress(4113, 100, "rows", stream) as progress:
        for _ in range(8):
            progress.add(500)
            time.sleep(0.11)  # it is drawn ten times a second at most
        progress.add(13)
    text = shown()
    drawn = text.removesuffix("\n").split("\r")[1:]
    assert text.endswith("\n") and text.count("\n") == 1 and all(len(line) < columns for line in drawn)
    assert drawn[0].strip().startswith("2%") and drawn[-1].startswith("100%") and len(drawn) > 3
    if columns >= 80:
        assert "| 100/4113 [" in drawn[0] and "| 4113/4113 [" in drawn[-1]


def test_lines_elsewhere_and_nothing_when_quiet(grid):
    stream = io.StringIO()
    with Progress(1000, 250, "rows", stream) as progress:
        for _ in range(750):
            progress.add(1)
    first, *more = stream.getvalue().splitlines()
    assert first == "250 of 1000 rows are there already" and more == [f"{n} of 1000 rows" for n in range(300, 1001, 100)]
    assert grid("--isa", "arm64", "--hook", "none", "--args", "1", "--quiet")[2] == ""


# --- What the user can put right


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--isa", "amr64"], ["unknown ISA 'amr64'", "arm64"]),
        (["--hook", "opps"], ["unknown hook 'opps'", "ops"]),
        (["--release", "v9.9"], [f"v9.9 is newer than {LATEST}, the newest release that the lab has"]),
        (["--isa", "arm64", "--hook", "ops,ops-regs"], [f"arm64 {LATEST} has no ops-regs hook", "v5.5 to v6.1"]),
        (["--hook", "direct", "--callbacks", "2"], ["direct hook takes one callback, not 2"]),
        (["--args", "13"], ["--args", "0 to 12", "'13'"]),
        (["--args", "2-1"], ["--args", "'2-1'"]),
        (["--callbacks", "0-4"], ["--callbacks", "1 to 120", "'0-4'"]),
        (["--isa", "arm64", "--processes", "0"], ["--processes", "1 to 256"]),
        (["--isa", "arm64", "--out", "/dev/null"], ["no ordinary file", "standard output"]),
    ],
)
def test_bad_input_is_one_line_and_status_2(grid, arguments, words):
    status, out, err = grid(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("tramplab: ") and err.count("\n") == 1
    for word in words:
        assert word in err


def test_what_is_kept_is_not_forgotten_before_standard_output_has_taken_it(monkeypatch, tmp_path, capsys):
    unit = Unit("arm64", "none", LATEST, 0, (1,))
    made = rows.answer(unit, Kernel("arm64"))
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path))
    arguments = ["grid", "--isa", "arm64", "--hook", "none", "--args", "0", "--callbacks", "1", "--quiet", "--processes", "1"]
    cached.Cached(cached.state()).save(unit, *made)
    with full() as said:
        assert cli.main(arguments) == 1
    assert said() == "tramplab: cannot write to standard output: No space left on device.\n"
    assert cached.Cached(cached.state()).has(unit)
    assert cli.main(arguments) == 0 and capsys.readouterr().out.count("\n") == 2
    assert not cached.Cached(cached.state()).has(unit)
