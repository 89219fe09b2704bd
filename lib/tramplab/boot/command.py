"""`tramplab boot`: a kernel image booted under QEMU, and what probes cost there."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import msgspec

from ..base.errors import TramplabError
from ..base.streams import unwound
from ..vmlinux.results.result import machine_of
from ..vmlinux.run.machine import RealMachine
from . import plan, probes, qemu, replaying, replays, run, show, trials
from .counted import Booted

_LONGEST = 24 * 3600.0
#: Names that the folder of the booted process has already, and what a word of its plan may be.
_TAKEN = ("init", "plan", plan.MODULE, "proc", "dev", "sys")
_NAMED = re.compile("[A-Za-z0-9_][A-Za-z0-9_.+-]*")


def add(sub: argparse._SubParsersAction) -> None:
    """Add the command to the command line's subparsers."""
    p = sub.add_parser(
        "boot",
        help="boot a kernel image under QEMU and measure probes there",
        description="Boot a kernel image under QEMU with one process of ours, which sets one probe after the other on a function "
        "of a cheap system call and reads how many instructions a call takes; or try a finding there, or replay a race that "
        "`tramplab explore` finds, on two CPUs.",
    )
    p.add_argument("image", metavar="IMAGE", help="a bzImage, or an arm64 or riscv64 Image")
    p.add_argument("--probe", metavar="P,Q", help=f"only these, of {', '.join(probes.PROBES)}")
    p.add_argument("--trial", metavar="NAME", help=f"instead of probes a finding: {', '.join(trials.TRIALS)}")
    p.add_argument(
        "--replay",
        metavar="SCHEME",
        help=f"instead of probes a race of {', '.join(dict.fromkeys(r.scheme for r in replays.REPLAYS))}",
    )
    p.add_argument("--append", default="", metavar="WORDS", help="more for the kernel's command line")
    p.add_argument("--module", action="append", default=[], metavar="KO", help="a kernel module that is loaded first")
    p.add_argument("--seconds", type=float, default=qemu.SECONDS, metavar="N", help="after which a boot is given up (default 600)")
    p.add_argument("--json", action="store_true", help="JSON instead of a table")
    p.add_argument("--csv", action="store_true", help="CSV instead of a table")
    p.set_defaults(command=boot)


def boot(args: argparse.Namespace) -> int:
    """Run it; returns the exit status. Raises TramplabError for what cannot be booted, after what it came to has been shown."""
    if args.json and args.csv:
        raise TramplabError("--json and --csv are ways to show a result: choose one.")
    if args.trial and (args.probe or args.csv):
        raise TramplabError("--trial is for a finding, whose readings are text or JSON: leave --probe and --csv away.")
    if args.replay and (args.probe or args.csv or args.trial or args.module):
        raise TramplabError(
            "--replay is for a race, shown as text or JSON, and loads no module: leave --probe, --csv, --trial and --module away."
        )
    if not 0 < args.seconds <= _LONGEST:
        raise TramplabError("--seconds is how long a boot may take: give a number above 0, a day at the most.")
    trial = trials.get(args.trial) if args.trial else None
    raced = replays.get(args.replay) if args.replay else []
    wanted = [probes.get(name) for name in args.probe.split(",")] if args.probe else list(probes.PROBES.values())
    how = run.How(Path(args.image), args.append, args.seconds, _modules(args.module))
    machine = machine_of(how.image)
    with unwound():
        if trial:
            readings = run.tried(machine, how, trial)
            print(json.dumps(msgspec.to_builtins(readings), indent=1) if args.json else show.trial_text(readings), end="")
        elif raced:
            _replay(machine, how, raced, args.json)
        else:
            _measure(machine, how, wanted, args)
    return 0


def _measure(machine: RealMachine, how: run.How, wanted: list[probes.Probe], args: argparse.Namespace) -> None:
    booted: Booted | None = None
    shown = 0
    try:
        for booted in run.measured(machine, how, wanted):
            if len(booted.rows) > shown:
                shown = len(booted.rows)
                print(f"{len(booted.rows)} of {len(wanted)}: {booted.rows[-1].probe.name}", file=sys.stderr)
    finally:
        if booted is not None and booted.rows:
            if args.json:
                print(json.dumps(show.data(booted), indent=1))
            else:
                sys.stdout.write(show.as_csv(booted) if args.csv else show.text(booted))


def _replay(machine: RealMachine, how: run.How, raced: list[replays.Replay], as_json: bool) -> None:
    done = [replaying.replayed(machine, how, replay) for replay in raced]
    banner, outcomes = done[0][0], [outcome for _, outcome in done]
    data = {"banner": banner, "replays": msgspec.to_builtins(outcomes)}
    print(json.dumps(data, indent=1) + "\n" if as_json else show.replay_text(banner, outcomes), end="")


def _modules(paths: list[str]) -> dict[str, bytes]:
    """The files of modules by name; all of these lie in one folder of the booted process, beside its own."""
    out: dict[str, bytes] = {}
    for path in map(Path, paths):
        if path.name in _TAKEN or path.name in out or not _NAMED.fullmatch(path.name):
            raise TramplabError(
                f"--module {path} cannot have this name in the boot, where {', '.join(_TAKEN)} and the other modules are: "
                f"copy it to a file of another name, of letters, digits and - _ . +."
            )
        try:
            out[path.name] = path.read_bytes()
        except OSError as e:
            raise TramplabError(f"{path} cannot be read ({e.strerror}): give a kernel module's file.") from None
    return out
