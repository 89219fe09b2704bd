"""Native times told: circumstances, saved results, the command."""

import json

import pytest

from support.complaints import complaint
from support.native.hosts import host_isa
from tramplab import native
from tramplab.base.errors import Unwritten
from tramplab.ftrace.releases import LATEST
from tramplab.native import cached, command, host
from tramplab.native.result import Result
from tramplab.trampolines import shapes

# --- The circumstances


@pytest.mark.parametrize(
    "cpuinfo, model",
    [
        ("processor\t: 0\nmodel name\t: A CPU\ncpu family\t: 25\nmodel\t\t: 1\n", "A CPU, family 25, model 1"),
        ("processor\t: 0\nhart\t\t: 1\nuarch\t\t: sifive,u74-mc\n", "uarch sifive,u74-mc"),
        ("nothing\n", "unknown"),
    ],
)
def test_cpu_models(monkeypatch, cpuinfo, model):
    monkeypatch.setattr(host, "_read", lambda _: "")
    assert host.cpu_model(cpuinfo) == model


@pytest.mark.parametrize(
    "cpuinfo, maker",
    [
        ("vendor_id\t: GenuineIntel\nmodel name\t: A CPU\n", "GenuineIntel"),
        ("CPU implementer\t: 0x61\nCPU part\t: 0x023\n", "0x61"),
        ("uarch\t\t: spacemit,x60\nmvendorid\t: 0x710\n", "spacemit"),
        ("mvendorid\t: 0x489\n", "0x489"),
        ("", "unknown"),
    ],
)
def test_makers(cpuinfo, maker):
    assert host.vendor(cpuinfo) == maker


def test_what_a_machine_says_of_itself_is_words_of_a_sentence():
    assert host.plain("A\x00B\n C\t" + "d" * 90) == "A B C " + "d" * 37 + "..."


def test_every_circumstance_has_its_warning():
    quiet = {"virtualised": "no", "governor": "performance", "smt": "off", "load": 0.1, "cpus": 2}
    assert host.warnings(quiet) == []
    for change, word in (
        ({"virtualised": "KVM"}, "(KVM)"),
        ({"governor": "powersave"}, "powersave"),
        ({"governor": "unknown"}, "not to be seen"),
        ({"smt": "on"}, "sibling"),
        ({"load": 1.5}, "load was 1.5"),
    ):
        (said,) = host.warnings({**quiet, **change})
        assert word in said


# --- Saved results

ROW = {
    "hook": "ops", "code": "0" * 16, "ns_min": 1.5, "ns_q1": 2, "ns_median": 2, "ns_q3": 3, "ns_over": 0.5, "cycles_over": 2.0,
    "ratio_direct": None, "windows": [1.5, 1.6], "steady": True, "agreed": False,
}
CLOCK = (0.25, 0.25)
MACHINE = {"cpu": "x", "isa": "x86_64", "arguments": 1}


def test_a_saved_result_comes_back(tmp_path):
    result = Result((ROW,), CLOCK, ("a warning",), ("a failure",), {**MACHINE, "pinned to": None})
    result.save(tmp_path / "r.json")
    assert native.load(tmp_path / "r.json") == result and [p.name for p in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    "text, said",
    [
        (None, "cannot read"),
        ("{", "is not JSON"),
        ('{"format": 0}', "is no native result of this edition"),
        ('{"format": 2, "rows": []}', "which tells what was executed"),
        ('{"format": 3, "rows": [{"hook": "a"}], "clock": [], "warnings": [], "failures": [], "provenance": {}}', "damaged"),
        (Result((ROW,), (0.25,), (), (), MACHINE).as_json(), "ops has other windows than the clock. The result is damaged"),
        (Result(({**ROW, "ns_min": 1.4},), CLOCK, (), (), MACHINE).as_json(), "ops has another ns_min than its windows."),
        (Result(({**ROW, "ns_q3": 1.9},), CLOCK, (), (), MACHINE).as_json(), "ops needs ns_min <= ns_q1 <= ns_median <= ns_q3."),
        (Result(({**ROW, "hook": "none"},), CLOCK, (), (), MACHINE).as_json(), "none has another ns_over than ns_min less that"),
    ],
)
def test_a_file_that_is_no_result_is_one_sentence(tmp_path, text, said):
    file = tmp_path / "r.json"
    if text is not None:
        file.write_text(text, "utf-8")
    assert said in complaint(lambda: native.load(file))


def test_a_result_that_cannot_be_saved_is_one_sentence(tmp_path):
    assert "cannot write" in complaint(lambda: Result((ROW,), CLOCK, (), (), {}).save(tmp_path / "nowhere" / "r.json"), Unwritten)


# --- The command


def main(*words: str) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    command.add(parser.add_subparsers())
    args = parser.parse_args(words)
    args.command(args)


def test_the_command_prints_a_narrow_table(capsys):
    host_isa()
    main("native", "direct", "direct+ops:10", "--rounds", "2", "--windows", "1")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 72
    assert [line.split()[:2] for line in lines[2:5]] == [["none", "?"], ["direct", "?"], ["direct+ops:10", "?"]]
    assert lines[1].split()[3] == "/direct" and lines[3].split()[5] == "1.00"
    assert any(line.startswith("cpu: ") for line in lines)
    assert "not quiet enough: in 1 window no hook has had the same least time in 3." in " ".join(lines)


def test_the_command_saves_and_prints_json(capsys, tmp_path):
    host_isa()
    main("native", "--shapes", "--rounds", "1", "--windows", "1", "--json", "--save", str(tmp_path / "r.json"))
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "r.json").read_text("utf-8")) and len(printed["rows"]) == 1 + len(shapes.GRID)
    assert printed["provenance"]["command"].startswith("tramplab ")


@pytest.mark.parametrize(
    "words, said", [
        (("--rounds", "many"), "--rounds is a whole number"),
        (("ops", "--shapes"), "leave the hooks out"),
        (("ops", "--save"), f"--save without FILE is for all hooks of {LATEST}, or for --shapes: name the file"),
    ]
)
def test_the_commands_bad_input(words, said):
    assert said in complaint(lambda: main("native", *words))


def test_a_failed_hook_is_the_commands_error_after_its_table(monkeypatch, capsys, tmp_path):
    """What ran is printed and saved all the same."""
    none = {**ROW, "hook": "none", "ns_over": 0.0, "cycles_over": 0.0}
    fake = Result((none,), CLOCK, ("careful",), ("direct crashed natively: SIGILL at x.",), {**MACHINE})
    monkeypatch.setattr(command, "time_hooks", lambda *_, **__: fake)
    file = tmp_path / "r.json"
    assert complaint(lambda: main("native", "--save", str(file))) == "direct crashed natively: SIGILL at x."
    assert "careful" in capsys.readouterr().out and native.load(file).failures == fake.failures


@pytest.mark.parametrize(
    ("words", "name"),
    [((), "hooks"), (("--shapes",), "shapes"), (("direct", "--release", "v6.18"), "v6.18"), (("--release", LATEST), "hooks")],
)
def test_a_file_that_is_not_named_is_named_after_the_machine(monkeypatch, tmp_path, capsys, words, name):
    none = {**ROW, "hook": "none", "ns_over": 0.0, "cycles_over": 0.0}
    facts = {"isa": "x86_64", "cpu": "AMD EPYC, family 25, model 17, stepping 1", "vendor": "AuthenticAMD", "virtualised": "KVM"}
    monkeypatch.setattr(host, "machine", lambda: facts)
    monkeypatch.setattr(cached, "data_file", lambda name: tmp_path / name)
    (tmp_path / "native").mkdir()
    for timed in ("time_hooks", "time_shapes"):
        monkeypatch.setattr(command, timed, lambda *_, **__: Result((none,), CLOCK, (), (), {**MACHINE}))
    main("native", *words, "--windows", "60", "--save")
    assert [path.name for path in (tmp_path / "native").iterdir()] == [f"amd-25-17-1-vm-{name}.json"]
