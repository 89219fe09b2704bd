"""Races replayed: what CPU 1 is held at, what is planned and shown, what is kept, and one that is replayed here."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import pytest

from tramplab.base.errors import TramplabError
from tramplab.boot import replays, replays_saved, show
from tramplab.boot.replaying import Outcome
from tramplab.boot.replays import REPLAYS
from tramplab.cli import main
from tramplab.emulate import decode
from tramplab.emulate.image import Symbol
from tramplab.isa import ISAS
from tramplab.races.explore import SAFE, explore
from tramplab.races.schemes.schemes import SCHEMES
from tramplab.vmlinux.debian.fetch import content, there
from tramplab.vmlinux.debian.list import plain
from tramplab.vmlinux.saved import races_saved

KEPT = replays_saved.read()["kernels"]
PACKAGE = next(p for p in plain() if (p.isa, p.release) == ("arm64", "v6.1"))
COMMON, CALL_OPS = (replays.get(name)[0] for name in ("arm64-common", "arm64-call-ops"))
AT = 0x1000
#: MOV x2, x11; LDR x4, [x2]; BLR x4, and with a BL in place of the last.
LOADS = bytes.fromhex("e2030baa 440040f9 80003fd6")
CALLS = bytes.fromhex("e2030baa 440040f9 01000094")


def machine(text, symbol, site):
    """What is asked of a machine whose ftrace_caller() is this text, with a symbol at its last instruction."""
    code = {AT + i: text[i : i + 4] for i in range(0, len(text), 4)}
    symbols = {"ftrace_caller": Symbol("ftrace_caller", AT, len(text)), symbol: Symbol(symbol, AT + 8, 4)}
    opened = SimpleNamespace(
        version="6.1-arm64", image=SimpleNamespace(symbols=symbols), has=symbols.__contains__, address=lambda s: symbols[s].address
    )
    isa = ISAS["arm64"]
    decoded = SimpleNamespace(instruction_at=lambda at: decode.at(isa, at, code.get(at, bytes.fromhex("1f2003d5"))))
    return SimpleNamespace(isa=isa, opened=opened, machine=decoded, features={"site": site})


def test_a_thread_is_held_where_the_function_is_taken():
    """A call that is patched, or the load of the function; behind the call it is back."""
    assert replays.held(machine(CALLS, "ftrace_call", "mov-bl"), COMMON) == replays.Held(AT + 8, "ftrace_call", AT + 12)
    found = replays.held(machine(LOADS, "end", "literal-mov-bl"), CALL_OPS)
    assert found == replays.Held(AT + 4, "ftrace_caller+0x4", AT + 12)


def test_a_kernel_that_patches_otherwise_is_refused():
    with pytest.raises(TramplabError, match=r"not patch its sites as arm64-common does: .*, or give arm64-call-ops"):
        replays.held(machine(LOADS, "end", "literal-mov-bl"), COMMON)
    with pytest.raises(TramplabError, match="calls callbacks by no instruction like"):
        replays.held(machine(LOADS[:4], "end", "literal-mov-bl"), CALL_OPS)


def test_the_plan_of_a_replay():
    """CPU 0 says that it begins, and that it has changed who traces; what waits for CPU 1 is in a process beside it."""
    text = replays.steps(machine(CALLS, "ftrace_call", "mov-bl"), COMMON)
    lines = text.replace("/sys/kernel/tracing/", "").splitlines()
    assert lines[3:5] == ["write set_ftrace_filter __arm64_sys_getpgid", "write current_tracer function"]
    assert lines[5:12] == ["cpu 1", "nr 9b 0", "caller", "cpu 0", "nr 9c 0", "calls 1", "beside write current_tracer nop"]
    assert lines[12] == "gone enabled_functions __arm64_sys_getpgid " and lines[-3:-1] == ["nr 8d 0", "calls 1"]


@pytest.mark.parametrize("scheme", dict.fromkeys(replay.scheme for replay in REPLAYS))
def test_a_replay_is_of_a_scheme_and_expects_what_is_explored(scheme):
    """The pair comes apart where the explorer finds that; where it finds nothing, the callback has its own ops, or CPU 0 waits."""
    found = explore(SCHEMES[scheme].subject(), threads=2).outcome
    assert {r.expected == "apart" for r in replays.get(scheme)} == {found == "pair"} and (found in ("pair", SAFE))


def test_what_is_kept_is_what_is_expected():
    """On each kernel of the list, with the schemes that are explored in its image."""
    explored = {k["name"]: {r["scheme"] for r in k["results"]} for k in races_saved.read()["kernels"]}
    assert [kernel["name"] for kernel in KEPT] == [p.name for p in plain()]
    for kernel in KEPT:
        for row in kernel["replays"]:
            replay = next(r for r in replays.get(row["scheme"]) if r.order.does == row["does"])
            assert row["outcome"] == replay.expected, (kernel["name"], row)
            assert row["scheme"] in explored.get(kernel["name"], {row["scheme"]})
            assert bool(row["oops"]) == (row["entered"] == "function_trace_call" and row["of"] == "stack_trace_call")
            assert row["ops"] in (row["passed"], None)
    assert {(k["isa"], r["outcome"]) for k in KEPT for r in k["replays"]} == {
        *(("arm64", outcome) for outcome in ("apart", "together")),
        *(("riscv64", outcome) for outcome in ("waits", "together")),
        ("x86_64", "apart"),
    }


def test_other_replays_than_there_are_are_refused(monkeypatch):
    monkeypatch.setattr(replays_saved.replays, "REPLAYS", REPLAYS[1:])
    with pytest.raises(TramplabError, match=r"has other replays than there are: run `python -m tramplab.boot --replay`"):
        replays_saved.read()


def test_a_replay_is_shown():
    row = next(k for k in KEPT if k["name"] == PACKAGE.name)["replays"][1]
    waits = next(r for k in KEPT for r in k["replays"] if r["outcome"] == "waits")
    text = show.replay_text("Linux version 6.1", [Outcome(**{**of, "oops": tuple(of["oops"]), "turns": 3}) for of in (row, waits)])
    words = " ".join(text.split())
    assert "CPU 1 is held at ftrace_call, before bl" in words and "with the ops 0xffff800009cbf240 of stack_trace_call()." in words
    assert "CPU 1 enters function_trace_call() with the ops 0xffff800009cbf240: apart. It does not come back: Unable to" in words
    assert "waits still after 3 turns" in words and max(map(len, text.splitlines())) <= 72


def test_a_replay_is_not_a_measurement(capsys):
    assert main(["boot", "Image", "--replay", "arm64-common", "--csv"]) == 2
    assert "leave --probe, --csv, --trial and --module away" in capsys.readouterr().err
    assert main(["boot", "Image", "--replay", "arm64-comon"]) == 2
    assert "did you mean arm64-common" in capsys.readouterr().err


@pytest.mark.skipif(
    not there(PACKAGE) or not shutil.which("qemu-system-aarch64"), reason=f"{PACKAGE.name} is not fetched, or there is no QEMU"
)
def test_a_race_comes_out_as_it_is_kept(tmp_path, capsys):
    """Of one kernel: a callback that is passed another's ops, and one that the kernel does not survive."""
    (image := tmp_path / "Image").write_bytes(content(PACKAGE))
    assert main(["boot", str(image), "--replay", "arm64-common", "--json"]) == 0
    found, kept = json.loads(capsys.readouterr().out), next(k for k in KEPT if k["name"] == PACKAGE.name)
    assert found["banner"] == kept["banner"]
    assert [{key: value for key, value in row.items() if key != "turns"} for row in found["replays"]] == kept["replays"]
