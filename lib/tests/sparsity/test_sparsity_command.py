"""`tramplab registers`: a structure, a conclusion, and what is not there."""

import json

import pytest

from tramplab.cli import main
from tramplab.ftrace.releases import LATEST


def said(capsys, *arguments):
    status = main(["registers", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_wrong_conclusion_is_told_with_the_field_that_it_rests_on(capsys):
    status, out, _ = said(capsys, "arm64", "ftrace_caller,partial", "user-mode", "--release", "v6.16")
    assert status == 0 and out.splitlines() == [
        "arm64 v6.16, ftrace_caller, partial: a pt_regs of 336 bytes",
        "user-mode (user_mode()): wrong",
        "  reads   pstate, constant: 0",
        "  says    0x1",
        "  should  0x0",
    ]


def test_a_structure_is_told_field_by_field(capsys):
    _, out, _ = said(capsys, "x86_64", "ftrace_caller, pt_regs")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines()[1:])
    assert (lines["di"], lines["cs"], lines["flags"]) == ("true", "constant: 0", "garbage") and len(lines) == 21


def test_without_a_structure_all_are_told_in_short(capsys):
    _, out, _ = said(capsys, "riscv64")
    assert out.count("fields: ") == out.count(" bytes\n") >= 5
    assert "ftrace_caller, partial: a pt_regs of 288 bytes" in out
    assert max(map(len, out.splitlines())) <= 72


def test_json_has_what_the_text_has(capsys):
    _, out, _ = said(capsys, "arm64", "breakpoint", "--json")
    (one,) = json.loads(out)
    assert one["fields"]["pstate"] == {"holds": "true", "rule": ""}
    assert one["consumers"]["user-mode"] == {"outcome": "right", "reads": ["pstate"], "says": [0], "should": [0]}


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("arm64", "breakpont"), "did you mean breakpoint?"),
        (("arm64", "ftrace_regs_caller, pt_regs"), f"unknown register structure of arm64 {LATEST}"),
        (("arm64", "breakpoint", "user-mod"), "unknown consumer 'user-mod'; did you mean user-mode?"),
        (("arm64", "breakpoint", "register"), "unknown consumer that concludes something 'register'"),
        (("amr64",), "did you mean arm64"),
        (("arm64", "--release", "v6"), "unknown release 'v6'"),
    ],
)
def test_what_is_not_there_is_one_line(capsys, arguments, words):
    status, out, err = said(capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1) and words in err
