"""Whatever is typed, and whatever the environment says: a command does what it can, or one line says why not; never a traceback."""

import contextlib

import pytest
from hypothesis import settings

from support.base import hostile
from support.plugins.seeds import drawn, seeds
from tramplab import cli
from tramplab.base.processes import jobs
from tramplab.vmlinux.debian import __main__ as debian
from tramplab.vmlinux.saved import recount


@pytest.fixture
def say(tmp_path, monkeypatch, capsys):
    """Run a command in a folder of its own, in this process alone; returns its status and what it says."""
    monkeypatch.chdir(tmp_path)
    hostile.files(tmp_path)
    monkeypatch.setattr(jobs, "_on_processes", lambda work, todo, *_: contextlib.nullcontext((job, work(job)) for job in todo))

    def run(command, words, variables):
        with monkeypatch.context() as m:
            for name, value in variables.items():
                m.setenv(name, value)
            try:
                status = command(words)
            except BaseException as e:
                e.add_note(f"{words} with {variables}")
                raise
        return status, capsys.readouterr()

    return run


def is_one_line(said: str) -> bool:
    return said.startswith("tramplab: ") and said.endswith("\n") and said[:-1].isprintable() and len(said) < 9000


@drawn
def test_a_hostile_command_line_is_one_line(say):
    """So many of them as examples are drawn of anything else."""
    for seed in seeds("hostile", settings.default.max_examples):
        words, variables = hostile.line(seed)
        status, out = say(cli.main, words, variables)
        assert status in (0, 3) or (status in (1, 2) and is_one_line(out.err)), (words, variables, status, out.err)


def test_so_it_is_with_the_commands_of_the_makefile(say):
    for command in (debian.main, recount.main):
        for word in hostile.BAD:
            status, out = say(command, ["nowhere", word], {})
            assert status == 2 and is_one_line(out.err), word


def test_the_lines_are_of_every_command_and_option():
    """Else what they leave out would be tried by nobody."""
    lines = [hostile.line(seed)[0] for seed in range(2000)]
    for name, parser in hostile.commands().items():
        said = {word.partition("=")[0] for words in lines if words[0] == name for word in words}
        assert said >= {option for a in parser._actions for option in a.option_strings[-1:]} - {"--help"}
    assert {a.dest for p in hostile.commands().values() for a in p._actions if a.nargs != 0} <= {*hostile.GOOD}
