"""`tramplab kernel`: real kernel images in the lab, two of them compared, the lab beside one."""

from __future__ import annotations

import argparse
import gc
import json
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..anatomy import boxes, compared_text, graph_text
from ..base.errors import TramplabError
from ..base.width import WIDTH
from ..estimate import judged
from ..estimate.cores import Core
from ..estimate.measure import estimated
from ..lab.run import Run
from . import hooks
from .booted.mitigations import MITIGATIONS, NONE
from .results import beside, differ, show
from .results.result import machine_of, result
from .run import measure
from .run.machine import USUAL, RealMachine
from .run.measure import Measured

#: The exit status where a hook was not measured for another reason than that a kernel does not have it.
UNMEASURED = 1
_DIFF = 3  # the word, and two images


def add(sub: argparse._SubParsersAction) -> None:
    """Add the command to the command line's subparsers."""
    p = sub.add_parser(
        "kernel",
        help="real kernel images, or two compared: kernel IMAGE..., kernel diff A B",
        description="Open kernel images, bring their text to its booted state, and call a function with each hook on it. The exit "
        f"status is {UNMEASURED} where a hook that an image has was not measured.",
    )
    p.add_argument("image", nargs="+", metavar="IMAGE", help="a vmlinuz, Image or vmlinux, or several; or: diff A B")
    p.add_argument("--hook", metavar="H,I", help=f"only these, of {', '.join(hooks.HOOKS)}")
    p.add_argument("--function", metavar="NAME", help=f"the traced function (default: the first there is of {', '.join(USUAL)})")
    p.add_argument("--mitigations", default=NONE, metavar="M", help=f"x86-64: {', '.join(MITIGATIONS)} (default {NONE})")
    p.add_argument("--core", metavar="NAME", help="also estimate cycles on a usable model of a core (see tramplab cores)")
    p.add_argument("--lab", action="store_true", help="also count in the lab's kernel of the same release")
    p.add_argument("--trace", metavar="HOOK", help="annotated disassembly of one hooked call instead")
    p.add_argument("--calls", metavar="HOOK", help="the functions that one hooked call goes through, as function_graph shows them")
    p.add_argument("--json", action="store_true", help="JSON instead of a table")
    p.add_argument("--csv", action="store_true", help="CSV instead of a table")
    p.set_defaults(command=kernel)


def kernel(args: argparse.Namespace) -> int:
    """Run it; returns the exit status, which says whether a hook, or one of several images, could not be measured. Raises
    TramplabError for what cannot be."""
    if sum(map(bool, (args.json, args.csv, args.trace, args.calls, args.lab))) > 1:
        raise TramplabError("--json, --csv, --trace, --calls and --lab are ways to show a result: choose one.")
    if args.hook and (args.trace or args.calls):
        raise TramplabError("--trace and --calls show the hook that they name: leave --hook away.")
    two = args.image[0] == "diff"
    if two and len(args.image) != _DIFF:
        raise TramplabError("diff compares two kernel images: tramplab kernel diff A B.")
    if args.core and (args.csv or args.trace or args.calls or args.lab or (two and args.json)):
        raise TramplabError("estimates are in the table, and in JSON of one kernel image: leave --core away, or how it is shown.")
    return (_diff if two else _several if len(args.image) > 1 else _one)(args)


def _status(results: Iterable[dict[str, Any]]) -> int:
    """The exit status that results say."""
    return UNMEASURED if any(row["status"] == measure.FAILED for result in results for row in result["hooks"]) else 0


def _one(args: argparse.Namespace) -> int:
    machine = machine_of(Path(args.image[0]), args.mitigations)
    if args.trace or args.calls:
        _trace(machine, args)
        return 0
    result, estimates = _measured(machine, args)
    if estimates:
        result["estimates"] = estimates
    if args.json:
        print(json.dumps(result, indent=1))
    elif args.csv:
        sys.stdout.write(show.as_csv([(args.image[0], result)]))
    elif args.lab:
        head = f"{machine}, and the lab's {beside.release(result['kernel'])} beside it: instructions"
        for line in (head, *(f"The lab's kernel: {how}" for how in beside.built(result["kernel"]))):
            print(textwrap.fill(line, WIDTH, break_on_hyphens=False))
        sys.stdout.write("\n" + show.lab_text(beside.pairs(result)))
        sys.stdout.write(show.made_text(result))
    else:
        sys.stdout.write(show.text(result) + _estimate_text(estimates))
    return _status([result])


def _several(args: argparse.Namespace) -> int:
    """Measure one image after the other; one that cannot be costs the others nothing."""
    if args.trace or args.calls or args.lab or args.core:
        raise TramplabError("--trace, --calls, --lab and --core are for one kernel image: give one, or leave them away.")
    results, failed = [], {}
    for path in args.image:
        try:
            results.append((path, _measured(machine_of(Path(path), args.mitigations), args)[0]))
        except TramplabError as e:
            failed[str(e)] = e.status  # once, what is wrong with every one
        gc.collect()  # an image and its machine refer to each other, and are hundreds of megabytes
    for line in failed:
        print(f"tramplab: {line}", file=sys.stderr)
    if results and args.json:
        print(json.dumps([{"image": path, **result} for path, result in results], indent=1))
    elif results:
        sys.stdout.write(show.as_csv(results) if args.csv else show.several_text(results))
    return max([*failed.values(), _status(result for _, result in results)])


def _trace(machine: RealMachine, args: argparse.Namespace) -> None:
    function, hook = args.function or machine.usual, args.trace or args.calls
    run = _hooked(machine, function, hook)
    print(f"{hook} on {machine}: {function} returned {run.value:#x}")
    for line in textwrap.wrap(machine.function(function).said, WIDTH):
        print(line)
    print(run.disassembly() if args.trace else graph_text(boxes(run, run.component_of)))


def _hooked(machine: RealMachine, function: str, hook: str) -> Run:
    """One call with a hook; raises TramplabError where the kernel has none."""
    (measured,) = measure.every(machine, function, [hook])
    if measured.run is None:
        raise TramplabError(f"{hook} was not measured on {machine.opened.version}: {measured.reason}.")
    return measured.run


def _measured(machine: RealMachine, args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result for the hooks asked for, and, with a core, the estimates. The first of several images decides which function is
    traced in all of them."""
    args.function = args.function or machine.usual
    core = judged.require(args.core, machine.isa.name) if args.core else None
    measured = measure.every(machine, args.function, args.hook.split(",") if args.hook else [])
    return result(machine, args.function, measured), _estimates(machine, args.function, measured, core) if core else {}


def _estimates(machine: RealMachine, function: str, measured: list[Measured], core: Core) -> dict[str, Any]:
    """The cycles that each hook adds; or why there are none, where the model does not know an instruction."""
    idle = next((m for m in measured if m.hook.name == "none"), None) or measure.every(machine, function, ["none"])[0]
    out: dict[str, Any] = {}
    for m in measured:
        if m.run is None or idle.run is None or m.hook.name == "none":
            continue
        try:
            out[m.hook.name] = estimated(m.run, idle.run, core)
        except TramplabError as e:
            out[m.hook.name] = str(e)
    return out


def _estimate_text(estimates: dict[str, Any]) -> str:
    lines = [""]
    for name, e in estimates.items():
        if isinstance(e, str):
            lines += textwrap.wrap(f"{name}: no estimate, {e}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
        else:
            lines.append(f"{name:<18}{e['low']:>6.0f} to {e['high']:.0f} {e['unit']} more, estimated on a model of {e['core']}")
    return "\n".join(lines) + "\n" if estimates else ""


def _diff(args: argparse.Namespace) -> int:
    if args.trace or args.lab or args.csv:
        raise TramplabError("--trace, --lab and --csv are for one kernel image, not for diff.")
    if args.calls:
        _diff_of_calls(args)
        return 0
    results: list[dict[str, Any]] = []
    estimates = []
    for machine in _two(args):
        result_of, estimate = _measured(machine, args)
        results.append(result_of)
        estimates.append(estimate)
    before, after = results
    changes = [c for c in differ.changes(before, after) if c.differs]
    if args.json:
        rows = [{name: getattr(c, name) for name in ("hook", "before", "after", "said", "symbols")} for c in changes]
        body = {"body": before["body"]} if "body" in before else {}
        print(json.dumps({"before": before["kernel"], "after": after["kernel"], **body, "changes": rows}, indent=1))
        return _status(results)
    sys.stdout.write(show.diff_text(before, after, changes))
    for which, of in zip(("before", "after"), estimates, strict=True):
        if of:
            sys.stdout.write(f"\n{which}:{_estimate_text(of)}")
    return _status(results)


def _two(args: argparse.Namespace) -> Iterator[RealMachine]:
    """The machines of two images, one after the other; the first decides which function is traced in both. Raises TramplabError for
    images of two ISAs."""
    isa = ""
    for path in args.image[1:]:
        machine = machine_of(Path(path), args.mitigations)
        isa = isa or machine.isa.name
        differ.require_one_isa(isa, machine.isa.name)
        args.function = args.function or machine.usual
        yield machine


def _diff_of_calls(args: argparse.Namespace) -> None:
    """Two images' calls with one hook beside each other."""
    calls = []
    for name, machine in zip("AB", _two(args), strict=True):
        run = _hooked(machine, args.function, args.calls)
        calls.append(boxes(run, run.component_of))
        for line in textwrap.wrap(f"{name}: {args.calls} on {machine}, {args.function}", WIDTH, break_on_hyphens=False):
            print(line)
    print(compared_text(*calls))
