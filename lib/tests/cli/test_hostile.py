"""Whatever is typed: a command does what it can, or one line says why not; never a traceback.

Command lines that nobody means are made of the commands and options that there are. In each something is no number, name or file
where one belongs, is not there, or is very long.
"""

import argparse
import random
from pathlib import Path

import pytest
from hypothesis import settings

from support.base.without_workers import without_workers
from support.plugins.seeds import drawn, seeds
from tramplab import cli

#: What will do in a place or for an option, so that the rest of a line is looked at; and quickly, where all of it will.
GOOD = dict(
    pair.split("=")
    for pair in (
        "study=counting format=csv output=out id=fig-counting isa=arm64 hook=ops release=v6.12 args=1 callbacks=1 core=cortex-a72"
        " image=garbage function=f mitigations=none trace=ops calls=ops scheme=riscv64-pair threads=1 without=fence.i fetch=stale"
        " data=unordered life=static max_states=9 time_limit=1"
        " save=saved processes=1 scheduler=127.0.0.1:1 structure=ftrace_caller consumer=ip rounds=1"
        " windows=1 out=out probe=ops trial=missed append=a module=garbage seconds=1"
    ).split()
)
#: Without these a command does a lot, or too much: they are always there.
NEEDED = {
    "grid": ("isa", "hook", "args", "callbacks"),
    "native": ("hook", "rounds", "windows"),
    "explore": ("scheme",),
    "registers": ("structure",),
    "claims": ("id",),
}
#: What will not, nearly anywhere.
BAD = (
    *("", " ", "-", "--", ",", "a,b", "%s{}%n", "--nothing", "--json=1", "None", "unknown", "a\nb", "\x1b[2J", "\udcff\udcfe"),
    *("-1", "0", "1.5", "1_0", "٣", "0x10", "nan", "0-", "-0-9", "ops:", ":1", "9" * 21, "9" * 5000, "x" * 70_000),
    *(".", "/", "folder", "empty", "empty/x", "garbage", "/proc/self/nowhere/x"),
)


def line(rng: random.Random) -> list[str]:
    """A command line."""
    (commands,) = (a for a in cli._parser()._actions if isinstance(a, argparse._SubParsersAction))
    name, parser = rng.choice([*commands.choices.items()])
    actions = [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]
    taken = [a for a in actions if a.required or a.dest in NEEDED.get(name, ()) or rng.random() < 0.4]
    odd = rng.choice([a for a in taken if a.nargs != 0] or [None])  # one at least
    places: list[str] = []
    options: list[list[str]] = []
    for action in taken:
        value = rng.choice(BAD) if action is odd or rng.random() < 0.2 else GOOD.get(action.dest, "")
        option = action.option_strings[-1:]
        if not option:
            places.append(value)
        else:
            options.append(option if action.nargs == 0 else rng.choice(([f"{option[0]}={value}"], [*option, value])))
    rng.shuffle(options)
    words = [*places, *(word for option in options for word in option)]
    if odd is None or rng.random() < 0.1:
        words.insert(rng.randrange(len(words) + 1), rng.choice(BAD))
    return [name, *words]


@pytest.fixture
def around(tmp_path, monkeypatch) -> Path:
    """A folder with what is there of what the lines name; the process is in it, and alone."""
    monkeypatch.chdir(tmp_path)
    without_workers(monkeypatch)
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "garbage").write_bytes(random.Random(1).randbytes(5000))
    return tmp_path


@drawn
def test_a_hostile_command_line_is_one_line(around, capsys):
    """So many of them as examples are drawn of anything else."""
    for seed in seeds("hostile", settings.default.max_examples):
        words = line(random.Random(seed))
        try:
            status = cli.main(words)
        except BaseException as e:
            e.add_note(f"{words}")
            raise
        said = capsys.readouterr().err
        one_line = said.startswith("tramplab: ") and said.endswith("\n") and said[:-1].isprintable() and len(said) < 9000
        assert status in (0, 3) or (status in (1, 2) and one_line), (words, status, said)
