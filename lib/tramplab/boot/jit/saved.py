"""`python -m tramplab.boot.jit`: BPF trampolines that the JIT of Debian's kernels makes, kept in data/bpf-trampolines.json.

Of the plain kernels that have been fetched, each booted under QEMU (Debian: qemu-system-x86, -arm, -misc); what the file says of
others stays. The kernels are at their link addresses (nokaslr), so that an image's symbols name what a trampoline calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from ...base.entries import Entry, IsaName, Natural, Positive, Release
from ...base.errors import TramplabError
from ...base.paths import data_file
from ...emulate import decode
from ...isa import Isa
from ...vmlinux.debian.fetch import content
from ...vmlinux.debian.list import Package, plain
from ...vmlinux.open.debuginfo.btf import Btf
from ...vmlinux.run.machine import RealMachine
from ...vmlinux.saved import store
from .. import plan, qemu
from ..probes import ATTACH, BPF_TRACING, END, code
from ..protocol import line as parts

FILE = "bpf-trampolines.json"
#: The letters of programs in a plan, and what BPF calls such programs.
KINDS = {"e": "fentry", "m": "fmod_ret", "x": "fexit"}
#: Functions with few and many arguments, four-byte ones on the stack, one and several, and structs of two words. All images have
#: them.
_FUNCTIONS = ("bpf_fentry_test1", "bpf_fentry_test6", "process_vm_rw", "ip6_append_data", "HUF_readStats_wksp", "tnum_in")
#: The programs of each function that are attached together.
_WAVES = (
    *(dict.fromkeys(_FUNCTIONS, kinds) for kinds in ("e", "x", "ex")),
    {"bpf_fentry_test1": "eexx", "bpf_modify_return_test": "m"},
    {"bpf_modify_return_test": "emmx"},
)
_RUN_CTX = "bpf_tramp_run_ctx"
#: A program that returns 0; bytes that are read of a site, and of a trampoline.
_NOTHING = code(*END)
_SITE, _CODE = 16, 1024
#: The step that is refused, by its first word.
_STEPS = {"program": "load", "trace": "attach", "trampoline": "find"}

#: The functions that a trampoline calls, besides programs and the traced function.
_Guard = Literal["__bpf_prog_enter_recur", "__bpf_prog_exit_recur", "__bpf_tramp_enter", "__bpf_tramp_exit"]
_Kind = Literal["fentry", "fmod_ret", "fexit"]


class _Refused(Entry, frozen=True):
    """What the kernel did not attach: at which step, with which error."""

    function: str
    programs: Annotated[tuple[_Kind, ...], Meta(min_length=1)]
    step: Literal["load", "attach", "find"]
    error: str


class _Trampoline(Entry, frozen=True):
    """A trampoline that the kernel made.

    programs: the kind of each, and where its code is.
    parameters: the bytes of each, and whether it is a struct by value.
    result: bytes of the function's result.
    body: the function's first byte past the patch site.
    site: bytes of the function from its patch site on.
    """

    function: str
    programs: Annotated[tuple[tuple[_Kind, Positive], ...], Meta(min_length=1)]
    parameters: tuple[tuple[Positive, bool], ...]
    result: Natural
    body: Positive
    site: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    address: Positive
    code: Annotated[str, Meta(pattern="^([0-9a-f]{2})+$")]


class _Kernel(store.Kernel, frozen=True):
    """A kernel with its trampolines.

    banner: the text of /proc/version.
    run_ctx, cookie_at: bytes of struct bpf_tramp_run_ctx, and the offset of the cookie in it.
    direct_jmp: is a trampoline that calls the function entered by a jump?
    guards: guard -> its address.
    """

    isa: IsaName
    release: Release
    banner: Annotated[str, Meta(pattern="^Linux version ")]
    run_ctx: Annotated[int, Meta(ge=8)]
    cookie_at: Natural
    direct_jmp: bool
    guards: Annotated[dict[_Guard, Positive], Meta(min_length=4)]
    refused: tuple[_Refused, ...]
    trampolines: tuple[_Trampoline, ...]


File = store.File[_Kernel]


def read() -> dict[str, Any]:
    """The file's content; raises TramplabError where it says something else than it may, or is of other images than those that are
    listed."""
    return store.read(data_file(FILE), File, plain(), "python -m tramplab.boot.jit")


def made(package: Package) -> dict[str, Any]:
    """The trampolines of a kernel that has been fetched, and those that it does not make."""
    opened = store.opened(package)
    machine = RealMachine(opened)
    printed = list(qemu.lines(opened.isa, package.name, content(package), {"plan": _plan(machine).encode()}))
    version = next(line.partition(" ")[2] for line in printed if line.startswith("| Linux version "))
    run_ctx = opened.struct(_RUN_CTX)
    head = {**store.of(package), "isa": opened.isa.name, "release": package.release, "banner": version}
    head |= {"run_ctx": run_ctx.size, "cookie_at": run_ctx.fields["bpf_cookie"].offset}
    guards = {name: opened.address(name) for name in get_args(_Guard)}
    head |= {"direct_jmp": bool(machine.features["direct_jmp"]), "guards": guards}
    refused: list[dict[str, Any]] = []
    trampolines: list[dict[str, Any]] = []
    for function, kinds, said in _said(printed):
        (refused if _refusal(said)[0] else trampolines).append(_entry(machine, function, kinds, said))
    return {**head, "refused": refused, "trampolines": trampolines}


def _plan(machine: RealMachine) -> str:
    """The steps of the booted process, see boot/init/init.c: of each wave first all programs are attached, then all trampolines
    read."""
    types = machine.opened.types
    if not isinstance(types, Btf):
        raise TramplabError(f"{machine.opened.payload.path} has no BTF, by whose numbers programs are attached.")
    lines = [*plan.SETTINGS, "read /proc/version"]
    for wave in _WAVES:
        for name, kinds in wave.items():
            lines.append(f"say attach {name} {kinds}")
            for kind in kinds:
                lines += [f"program {BPF_TRACING:x} {ATTACH[KINDS[kind]]:x} {types.number(name):x} {_NOTHING}", "trace"]
        for name, kinds in wave.items():
            lines += [f"say read {name} {kinds}", f"bytes {machine.function(name).site.ip:x} {_SITE:x}"]
            lines.append(f"trampoline {types.number(name):x} {_CODE:x}")
        lines.append("close")
    return "\n".join(lines) + "\n"


def _said(printed: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Function, kinds, and the lines that came of them, of attaching and of reading."""
    of: dict[tuple[str, str], list[str]] = {}
    lines: list[str] = []
    for line in printed:
        if line.startswith(("attach ", "read ")):
            _, function, kinds = line.split()
            lines = of.setdefault((function, kinds), [])
        else:
            lines.append(line)
    for (function, kinds), lines in of.items():
        yield function, kinds, lines


def _refusal(said: list[str]) -> tuple[str, str]:
    """The step that was refused first, and the error; empty for none."""
    line = next((line for line in said if line.startswith("refused ")), "")
    if not line:
        return "", ""
    error, step = parts(line).refusal
    return _STEPS[step.split()[0]], error


def _entry(machine: RealMachine, function: str, kinds: str, said: list[str]) -> dict[str, Any]:
    step, why = _refusal(said)
    if step:
        return {"function": function, "programs": [KINDS[k] for k in kinds], "step": step, "error": why}
    opened = machine.opened
    programs = [int(line.split()[1], 16) for line in said if line.startswith("code ")]
    (_, _, site), (_, address, code) = (line.split() for line in said if line.startswith("bytes "))
    data = whole(opened.isa, int(address, 16), bytes.fromhex(code))
    prototype = opened.prototype(function)
    assert prototype is not None
    return {
        "function": function,
        "programs": [[KINDS[k], at] for k, at in zip(kinds, programs, strict=True)],
        "parameters": [[v.size, v.struct] for v in prototype.parameters],
        "result": prototype.result.size,
        "body": machine.function(function).site.body,
        "site": site,
        "address": int(address, 16),
        "code": data.hex(),
    }


def whole(isa: Isa, address: int, data: bytes) -> bytes:
    """The trampoline that these bytes begin with: to the return at its end. On arm64 one return more calls the function, with a way
    back that an ADR has made just before. Raises TramplabError where there is no end."""
    at, before = 0, ""
    while at < len(data):
        instruction = decode.at(isa, address + at, data[at:])
        at += instruction.size
        if instruction.mnemonic in ("ret", "c.jr", "jr") and before != "adr":
            return data[:at]
        before = instruction.mnemonic
    raise TramplabError(f"the trampoline at {address:#x} does not end within {len(data)} bytes.")


def text(kernels: list[dict[str, Any]]) -> str:
    """The text of the file: a line for each trampoline."""
    return store.whole(store.lines(kernel, "  ", "refused", "trampolines") for kernel in kernels)


def main() -> int:
    """Write the file again; return the exit status."""
    return store.remake(FILE, File, plain(), made, text, lambda kernel: f"{len(kernel['trampolines'])} trampolines")
