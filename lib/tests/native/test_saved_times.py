"""The times in data/native/: of code as it is today, and of all hooks. What fails says how to take them again."""

import re
import shlex
import shutil

import pytest

from support.models.guests import every_isa
from tramplab import Kernel, cli, native
from tramplab.build.toolchain import GUEST
from tramplab.ftrace.releases import LATEST
from tramplab.isa import get
from tramplab.native import cached, host, states, timing
from tramplab.native.timing import default_hooks, outdated

SAVED = {name: result for kind in (*cached.KINDS, cached.EMPTY) for name, result in cached.saved(kind).items()}
WHOLE = [name for name in SAVED if name.endswith("-hooks")]


def hooks_of(name: str) -> tuple[str, ...]:
    """The hooks, or shapes, of a file; of one of all hooks also those that it says are missing."""
    result = SAVED[name]
    if name in WHOLE and result.failures:
        return default_hooks(get(str(result.provenance["isa"])), str(result.provenance["release"]))
    return tuple(str(r["hook"]) for r in result.rows[1:])


def again(name: str) -> str:
    """The command that takes the times of a file again."""
    facts, hooks = SAVED[name].provenance, [str(r["hook"]) for r in SAVED[name].rows[1:]]
    if "saves" in SAVED[name].rows[0]:
        words = ["--shapes"]
    else:
        words = [*(hooks if name not in WHOLE else ()), *(["--release", facts["release"]] if facts["release"] != LATEST else ())]
    return shlex.join(["tramplab", "native", *words, "--args", str(facts["arguments"]), "--save", f"data/native/{name}.json"])


@pytest.mark.parametrize("name", SAVED)
def test_what_was_timed_is_what_the_lab_executes(name):
    """Times of other code are compared with nothing: they are taken again, or removed."""
    old = outdated(SAVED[name])
    cpu = SAVED[name].provenance["cpu"]
    assert not old, (
        f"data/native/{name}.json has times of other code than today's for {', '.join(old)}. On a quiet machine ({cpu}) run "
        f"`{again(name)}`, or `make native` for all files of the machine; else remove the rows or the file. Then run `make update`."
    )


@pytest.mark.parametrize("name", SAVED)
def test_the_command_for_a_file_takes_what_the_file_has(name, monkeypatch):
    asked = []
    monkeypatch.setattr(timing, "subject", lambda isa, release, variants, args: asked.append((release, list(variants), args)))
    monkeypatch.setattr("tramplab.native.timing.Series", lambda *_: None)
    monkeypatch.setattr(timing, "fill", lambda *_: pytest.skip("as far as what is asked for"))
    facts = SAVED[name].provenance
    monkeypatch.setattr(host, "isa", lambda: get(str(facts["isa"])))
    with pytest.raises(pytest.skip.Exception):
        cli.main(again(name).split()[1:])
    assert asked == [(facts["release"], [*hooks_of(name)], facts["arguments"])]


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_of_all_hooks_has_all(name):
    """Each has a row, on which windows agree or the result says why they do not; or has none, and it says why."""
    result = SAVED[name]
    facts, rows = result.provenance, {str(r["hook"]): r for r in result.rows}
    absent = set(default_hooks(get(str(facts["isa"])), str(facts["release"]))) - set(rows)
    said = {word for failure in result.failures for word in failure.replace(",", "").split()}
    assert absent <= said
    assert all(r["agreed"] or hook in (*result.unquiet, *result.unsteady) for hook, r in rows.items())
    assert sum(bool(r["agreed"]) for r in rows.values()) > len(rows) / 2, "the machine was not quiet: take them again"


def executed(isa: str, folder, change) -> dict[str, str]:
    """The code of a few hooks, of a guest whose C was changed."""
    shutil.copytree(GUEST, folder)
    source = folder / "core" / "ftrace.c"
    source.write_text(change(source.read_text("utf-8")), "utf-8")
    found = {}
    for hook in ("ops", "ops:2"):
        kernel = Kernel(get(isa).in_user_space, guest=folder, meter="record")
        function = kernel.function("one_arg")
        with states.hook(hook)(kernel, function):
            found[hook] = states.executed(kernel.call(function, 1))
    return found


@every_isa
def test_other_code_is_what_executes_something_else(isa, tmp_path):
    """A comment, and a function that lies before the others, change nothing; an instruction in the list function does, for its
    callers."""
    barrier = re.compile(r"^(void ftrace_ops_list_func\(.*?\n\{.*?\n)(?=\n)", re.M | re.S)
    longer = "void lab_nobody_calls_it(volatile long *p)\n{\n\tfor (int i = 0; i < 9; i++)\n\t\t*p += i;\n}\n"
    now = executed(isa, tmp_path / "now", lambda text: text)
    assert executed(isa, tmp_path / "comment", lambda text: "/* One more. */\n" + text) == now
    assert executed(isa, tmp_path / "moved", lambda text: barrier.sub(lambda m: longer + m[0], text)) == now
    other = executed(isa, tmp_path / "other", lambda text: barrier.sub(r'\1\tasm volatile("nop");\n', text))
    assert other["ops"] == now["ops"] and other["ops:2"] != now["ops:2"] != now["ops"]


def test_a_row_of_other_code_is_named():
    """So is a hook that there is not any more."""
    states_now = timing.subject(get("riscv64"), "v7.2", {"ops": states.hook("ops")}, 1).states
    facts = {"isa": "riscv64", "release": "v7.2", "arguments": 1}
    rows = [{"hook": s.name, "code": s.code} for s in states_now]
    assert outdated(native.Result(tuple(rows), (), (), (), facts)) == ()
    changed = [*rows[:1], {"hook": "ops", "code": "0" * 16}, {"hook": "of-old", "code": "1" * 16}]
    assert outdated(native.Result(tuple(changed), (), (), (), facts)) == ("ops", "of-old")
