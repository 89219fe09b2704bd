"""What the guest's sources say of their trampolines, against what runs.

Encodings and ranges of releases are typed here, from manuals and the kernel, not asked of the package.
"""

from __future__ import annotations

import functools
import re
import struct
from dataclasses import dataclass

import pytest

from support.abi.abi_places import PLACES, Place
from support.abi.headers import HEADERS, SOURCES, BadHeader, defined, header_of, headers_in
from support.mutants.mutants import Mutant
from tramplab import Direct, Kernel, Ops
from tramplab.ftrace import releases
from tramplab.isa import ISAS

FUNCTION = "six_args"  # a leaf that keeps off the stack, so that a trampoline's frame stays readable after the call
RUBBISH = 0xEE


@functools.lru_cache(maxsize=2)
def kernel(place: Place) -> Kernel:
    # riscv64's trampolines are the same without frame pointers, and functions do not write over the frame they had
    without = {"frame_pointer": False} if place.isa == "riscv64" else {}
    return Kernel(place.isa, place.release, **{**without, **dict(place.overrides)})


# the headers


#: Trampoline -> the hooks whose calls go through it and no other: alone, and in company.
SHOWN_BY: dict[str, tuple] = {
    "ftrace_caller": (lambda: (Ops(),), lambda: (Ops(), Ops())),
    "ftrace_regs_caller": (lambda: (Ops(save="regs"),), lambda: (Ops(save="regs"), Ops())),
    "lab_direct_near": (lambda: (Direct(),), lambda: (Direct(far=True),)),
}
#: Code in a trampoline section that has no header of its own -> whose header speaks for it.
PARTS = {
    "ftrace_common": "ftrace_caller",
    "ftrace_epilogue": "ftrace_caller",
    "ftrace_caller_direct_late": "ftrace_caller",
    "lab_direct_near_observe": "lab_direct_near",
    "lab_direct_far": "lab_direct_near",
    "lab_direct_far_observe": "lab_direct_near",
}


def exists(name: str, place: Place) -> bool:
    """Does a place have that trampoline?"""
    return {"ftrace_regs_caller": place.had("regs"), "lab_direct_near": place.had("direct")}.get(name, True)


SHOWN = [(place, name) for place in PLACES for name in SHOWN_BY if exists(name, place)]


@dataclass(frozen=True)
class Seen:
    """A recorded call: registers whose values lie in the trampoline's frame, the frame's size, bytes of it written."""

    saved: frozenset[str]
    size: int
    written: int


def observe(k: Kernel, requests: tuple) -> Seen:
    """Call through a hook with a value of its own in every register and look for them in the trampoline's frame."""
    isa, m = k.isa, k.machine
    own_use = (isa.sp, isa.link, "tp")
    values = {r: 0x5EED_0000_0000_0001 + (i << 16) for i, r in enumerate(isa.registers) if r not in own_use}
    m.write(m.stack_top - 4096, bytes([RUBBISH]) * (4096 - 32))
    with k.attached(k.function(FUNCTION), *requests):
        run = k.call(FUNCTION, registers=values)
        own = [s for s in run.steps if run.component_of(s.pc) == "trampoline"]
        top, bottom = own[0].sp, min(s.sp for s in own)
        frame = m.read(bottom, top - bottom)
        words = set(struct.unpack(f"<{len(frame) // 8}Q", frame))
    if isa.link:
        values[isa.link] = m.return_to
    if "tp" in isa.registers:
        values["tp"] = k.image.address("init_task")
    return Seen(frozenset(r for r, v in values.items() if v in words), run.frame.frame, run.frame.written)


@pytest.mark.parametrize(("place", "name"), SHOWN, ids=lambda v: str(v))
def test_a_header_says_what_runs(place, name):
    """saves, frame and written of every trampoline, in every release, equal what a call leaves on the stack."""
    k, header, defines = kernel(place), header_of(name, place), defined(place)
    for requests in SHOWN_BY[name]:
        seen = observe(k, requests())
        assert seen.saved == header.under(header.saves, defines), f"{header}: saves"
        assert (seen.size, seen.written) == header.under(header.frame, defines), f"{header}: frame"


def test_every_header_is_about_something_that_runs():
    """No header, and no line of one for a special configuration, is left unchecked."""
    checked = set()
    for place, name in SHOWN:
        header = header_of(name, place)
        checked |= {(str(header), n) for n, _ in header.saves + header.frame if not n or n in defined(place)}
    every = {(str(h), n) for h in HEADERS for n, _ in h.saves + h.frame}
    assert checked == every, "give SHOWN_BY or abi_places.PLACES what reaches the missing ones"


@pytest.mark.parametrize("isa", ISAS)
def test_every_release_has_one_header_of_each_trampoline(isa):
    """The ranges of releases in the headers neither overlap nor leave a gap."""
    for release in releases.known():
        for name in SHOWN_BY:
            if exists(name, Place(isa, release)):
                header_of(name, Place(isa, release))


@pytest.mark.parametrize("file", SOURCES)
def test_every_trampoline_has_a_header(file):
    """Whatever is put into a trampoline section has a header in its file, or is named as a part of one that has."""
    begins = r"^(?:TRAMPOLINE\((\w+)\)|FUNCTION\((\w+), \.(?:text|far)\.trampoline\))"
    names = [a or b for a, b in re.findall(begins, SOURCES[file], re.MULTILINE)]
    spoken = [h.name for h in HEADERS if h.file == file]
    whole = [n for n in names if n not in PARTS]
    assert sorted(whole) == sorted(spoken)
    assert {PARTS[n] for n in names if n in PARTS} <= set(spoken)


@pytest.mark.parametrize("missing", ["stands for", "saves", "frame", "differs"])
def test_an_incomplete_header_is_an_error(missing):
    """A header that lost one of its four lines does not go unnoticed."""
    lines = [
        " * @trampoline some_caller",
        " * stands for: some_caller, arm64, v6.1 to v6.4",
        " * saves: x0 x1",
        " * frame: 32 bytes, 16 written",
        " * differs: nothing,",
        " *   and nothing.",
    ]
    whole = "/*\n" + "\n".join(lines) + "\n */\n"
    assert [h.name for h in headers_in(whole, "arm64", "a.S")] == ["some_caller"]
    kept = [line for line in lines if not line.startswith((f" * {missing}:", " *   "))]
    with pytest.raises(BadHeader, match=missing):
        headers_in("/*\n" + "\n".join(kept) + "\n */\n", "arm64", "a.S")


@pytest.mark.parametrize(
    ("isa", "file", "old", "new"),
    [
        ("x86_64", "ftrace_caller.S", "\tmovq\t%r9, R(r9)\n", ""),
        ("arm64", "ftrace_caller_args.S", "stp\tx6, x7, [sp, #X(6)]", "stp\tx6, xzr, [sp, #X(6)]"),
        ("riscv64", "ftrace_caller_args.S", "FRAME SIZEOF_ftrace_regs\n", "FRAME SIZEOF_ftrace_regs + 16\n"),
    ],
    ids=["store dropped", "other register", "larger frame"],
)
def test_a_header_that_is_wrong_is_noticed(isa, file, old, new, mutated):
    """A store dropped, another register stored, a larger frame: each differs from the header."""
    mutant = Mutant(isa, "v7.2", "ops", f"{isa}/{file}", "header", old, new)
    k, header = mutated(mutant).kernel, header_of("ftrace_caller", mutant.place)
    k.machine.set_meter("record")
    seen, defines = observe(k, (Ops(),)), defined(mutant.place)
    said = header.under(header.saves, defines), header.under(header.frame, defines)
    assert (seen.saved, (seen.size, seen.written)) != said


# per-ops trampolines of x86-64

X86 = [place for place in PLACES if place.isa == "x86_64" and not dict(place.overrides).get("call_ops")]


@pytest.mark.parametrize("place", X86, ids=str)
@pytest.mark.parametrize("regs", [False, True], ids=["args", "regs"])
@pytest.mark.parametrize("guarded", [False, True], ids=["plain", "guarded"])
def test_a_per_ops_trampoline_is_a_patched_copy(place, regs, guarded):
    """The common one but for the ops load, the call and (regs) the branch to the direct exit; then RET and the ops."""
    k = kernel(place)
    name, call = ("ftrace_regs_caller", "ftrace_regs_call") if regs else ("ftrace_caller", "ftrace_call")
    address = k.image.address
    start, end = address(name), address(f"{name}_end")
    template = k.machine.read(start, end - start)
    request = functools.partial(Ops, save="regs" if regs else "args", recursion=guarded)
    f, other = k.function(FUNCTION), k.function("one_arg")
    with k.attached(f, request()) as (first,), k.attached(other, request()) as (second,):
        assert first.trampoline + first.trampoline_size + 8 <= second.trampoline
        for ops in (first, second):
            base, size = ops.trampoline, ops.trampoline_size
            assert size == len(template) + 1
            copy = k.machine.read(base, size)
            load, at = address(f"{name}_op_ptr") - start, address(call) - start
            patched = set(range(load + 3, load + 7)) | set(range(at + 1, at + 5))
            if regs:
                branch = address("ftrace_regs_caller_jmp") - start
                patched |= {branch, branch + 1}
                assert copy[branch : branch + 2] == bytes.fromhex("6690")  # a NOP of two bytes
            assert [i for i in range(len(template)) if copy[i] != template[i] and i not in patched] == []
            assert copy[load : load + 3] == bytes.fromhex("488b15")  # mov rdx, [rip + ...]
            pointer = base + load + 7 + struct.unpack_from("<i", copy, load + 3)[0]
            assert pointer >= base + size and k.machine.read_u64(pointer) == ops.address
            assert copy[at] == 0xE8
            target = base + at + 5 + struct.unpack_from("<i", copy, at + 1)[0]
            assert target == address("ftrace_ops_assist_func" if guarded else "lab_callback")
            assert copy[-1:] == b"\xc3"
            assert k.call(ops.functions[0]).counts.by_symbol[f"ftrace_trampoline[{ops.index}]"].instructions > 0
