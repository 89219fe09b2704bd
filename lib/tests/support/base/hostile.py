"""Command lines that nobody means, made of the commands and options that there are: in each something is no number, name or file
where one belongs, is not there, or is very long. Some have an environment of the kind."""

from __future__ import annotations

import argparse
import functools
import random
from pathlib import Path

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
    *("", " ", "-", "--", "---", ",", ":", "a,b", "*", "%s{}%n", "--nothing", "--json=1", "None", "True", "unknown"),
    *("-1", "0", "+1", "1.5", "1e3", "1_0", "٣", "１", "0x10", "inf", "nan", "0-", "-0-9", "ops:", ":1", "ops:٣"),
    *("9" * 21, "9" * 5000, "-" + "9" * 30, "x" * 300, "x/" * 3000, "x" * 70_000, "x" * 300 + ",arm64"),
    *(".", "..", "/", "folder", "folder/", "empty", "empty/x", "garbage", "/proc/self/nowhere/x"),
    *("a\nb", "\x1b[2J", "\udcff\udcfe", "\u202e", "\u2028"),
)
#: Environment variable -> what it says that will not do.
VARIABLES = {
    "TRAMPLAB_CACHE": ("empty", "empty/x", "/proc/self/nowhere", "x" * 300),
    "TRAMPLAB_TIMES": ("empty", "folder", "x" * 300),
    "TRAMPLAB_URL": ("", "\n", "x" * 300),
    "COLUMNS": ("-1", "0", "x"),
}


def files(folder: Path) -> None:
    """What is there of what they name."""
    (folder / "folder").mkdir()
    (folder / "empty").touch()
    (folder / "garbage").write_bytes(random.Random(1).randbytes(5000))


@functools.cache
def commands() -> dict[str, argparse.ArgumentParser]:
    """Every command, and what reads its arguments."""
    (sub,) = (a for a in cli._parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(sub.choices)


def line(seed: int) -> tuple[list[str], dict[str, str]]:
    """A command line, and variables of its environment."""
    rng = random.Random(seed)
    name, parser = rng.choice([*commands().items()])
    actions = [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]
    taken = [a for a in actions if a.required or a.dest in NEEDED.get(name, ()) or rng.random() < 0.4]
    odd = rng.choice([a for a in taken if a.nargs != 0] or [None])  # one at least
    places: list[str] = []
    options: list[list[str]] = []
    for action in taken:
        value = rng.choice(BAD) if action is odd or rng.random() < 0.2 else GOOD.get(action.dest, "")
        if not action.option_strings:
            places.append(value)
        elif action.nargs == 0:
            options.append([action.option_strings[-1]])
        else:
            option = action.option_strings[-1]
            options.append([f"{option}={value}"] if rng.random() < 0.5 else [option, value])
    options += rng.sample(options, rng.random() < 0.05 and len(options) > 0)  # twice
    rng.shuffle(options)
    words = [*places, *(word for option in options for word in option)]
    if odd is None or rng.random() < 0.1:
        words.insert(rng.randrange(len(words) + 1), rng.choice(BAD))
    return [name, *words], {v: rng.choice(values) for v, values in VARIABLES.items() if rng.random() < 0.05}
