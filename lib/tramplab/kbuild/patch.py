"""`tramplab patch`: a source with and without a patch, built, counted, explored and booted, and what differs."""

from __future__ import annotations

import argparse
import functools
import json
import shlex
import sys
import textwrap
from collections.abc import Sequence

from msgspec import to_builtins

from ..base.arguments import typed
from ..base.revision import of_package
from ..base.streams import unwound
from ..base.width import WIDTH
from . import build, command, source, verdict
from .look import looked

#: The exit status where a hook or probe grew by more than --fail-above allows.
ABOVE = 1
LINES = 60  # of the text, to be pasted into a thread
_UNSEEN = (
    "Not looked at: time, more than one CPU, modules, other configurations than this small one, and functions that no hook or "
    "probe here calls."
)


def add(sub: argparse._SubParsersAction) -> None:
    """Add the command to the command line's subparsers."""
    p = sub.add_parser(
        "patch",
        help="what a patch changes per hooked call, in patching and in a boot, on each ISA",
        description="Build a kernel without a patch and with it, and compare them: the size of the text, patch sites, every hook "
        "in the image, patching explored, every probe and trial in a boot. The exit status is "
        f"{ABOVE} where a hook or a probe executes more than --fail-above instructions more.",
    )
    command.options(p)
    p.add_argument("patch", nargs="+", metavar="PATCH", help="a diff, or a mailbox of them as b4 writes it")
    p.add_argument("--no-boot", action="store_true", help="leave out what needs QEMU")
    p.add_argument("--fail-above", metavar="N", help="instructions that a hook or probe may grow by")
    p.add_argument("--json", action="store_true", help="JSON with every change instead of text")
    p.set_defaults(command=_patch)


def _patch(args: argparse.Namespace) -> int:
    path, patches = source.found(args.source), list(map(source.patch, args.patch))
    wanted = command.wanted(args)
    most = None if args.fail_above is None else typed(args.fail_above, "--fail-above", 0)
    with unwound():
        pairs = list(build.kernels(path, [[], patches], wanted, command.tick))
        found = [one for pair in pairs for one in compared(pair, not args.no_boot)]
    if args.json:
        print(json.dumps(to_builtins(found), indent=1))
    else:
        head = _wrapped(f"{', '.join(p.name for p in patches)} on Linux {found[0].release}")
        now = of_package()
        tail = _wrapped(f"Tramplab {now.commit or 'of an unknown commit'}{' with changes' * now.dirty}: {_again(args)}")
        tail = ["", *_wrapped(_UNSEEN), *tail]
        print("\n".join([*head, *verdict.text(found, LINES - len(head) - len(tail)), *tail]))
    growth = max((part.growth for v in found for part in v.parts if part.name.endswith("instructions")), default=0)
    return ABOVE if most is not None and growth > most else 0


def compared(kernels: Sequence[build.Built], boot: bool = True) -> list[verdict.Verdict]:
    """What differs between a kernel without patches, the first, and each of those with some. boot: are they booted?"""
    without, *others = kernels
    before = functools.cache(lambda: looked(without, boot, functools.partial(_say, f"{without.isa}, without a patch: ")))
    found = []
    for kernel in others:
        digests = [source.digest(one.image) for one in (without, kernel)]
        parts, unseen = [verdict.Part(name="the boot image, byte by byte", compared=1, changes=())], []
        if digests[0] != digests[1]:  # else there is nothing to look at
            looks = before(), looked(kernel, boot, functools.partial(_say, f"{kernel.isa}, with {', '.join(kernel.patches)}: "))
            parts = verdict.parts(*looks)
            unseen = list(dict.fromkeys(said for look in looks for said in look.get("unseen", ())))
        found.append(
            verdict.Verdict(
                patches=kernel.patches,
                isa=kernel.isa,
                release=kernel.release,
                compiler=kernel.compiler,
                before=digests[0],
                after=digests[1],
                parts=tuple(parts),
                unseen=tuple(unseen),
            )
        )
    _say("", "")
    return found


def _say(of: str, what: str) -> None:
    """Say on a terminal what is done now."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{of}{what}", end="", file=sys.stderr, flush=True)


def _again(args: argparse.Namespace) -> str:
    """The command that gives the same."""
    words = ["tramplab", "patch", args.source, *args.patch]
    words += [word for name in args.config for word in ("--config", name)]
    words += [word for name in ("isa", "clang") if getattr(args, name) for word in (f"--{name}", getattr(args, name))]
    return shlex.join([*words, *["--no-boot"] * args.no_boot])


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, break_on_hyphens=False, break_long_words=False)
