"""What the guest's sources say of their trampolines, and the facts about patch sites, against what runs.

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
from tramplab.ftrace.releases import parse
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


# patch sites

NOP5, ENDBR64 = bytes.fromhex("0f1f440000"), bytes.fromhex("f30f1efa")
MOV_X9_LR, NOP_ARM64, BTI_C = 0xAA1E03E9, 0xD503201F, bytes.fromhex("5f2403d5")
NOP4, SD_RA, LD_RA = 0x00000013, 0xFE113C23, 0xFF813083
RA, T0 = 1, 5


def shape(place: Place) -> str:
    """The patch site of a release"""
    version, call_ops = parse(place.release), ("call_ops", False) not in place.overrides
    if place.isa == "x86_64":
        return "nop5; literal" if ("call_ops", True) in place.overrides else "nop5"
    if place.isa == "arm64":
        return "mov, bl; literal" if version >= (6, 3) and call_ops else "mov, bl"
    if version >= (6, 16):
        return "auipc fixed, jalr; literal" if call_ops else "auipc fixed, jalr"
    return "auipc, jalr" if version >= (6, 3) else "sd, auipc, jalr, ld"


def pads(place: Place) -> bytes:
    """arm64's landing pad in front of the site, where there is one."""
    return BTI_C if ("bti", True) in place.overrides else b""


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def pair(pc: int, data: bytes, register: int) -> int:
    """Where an AUIPC/JALR pair through a register goes."""
    upper, lower = struct.unpack("<2I", data)
    assert upper & 0xFFF == register << 7 | 0x17, f"no AUIPC of x{register}: {upper:#010x}"
    assert lower & 0xFFFFF == register << 15 | register << 7 | 0x67, f"no JALR of x{register}: {lower:#010x}"
    return pc + signed(upper & 0xFFFFF000, 32) + signed(lower >> 20, 12)


def called(place: Place, site, data: bytes) -> int:
    """Where the bytes from a function's entry to its body call; asserts everything about them that the release fixes."""
    kind = shape(place)
    if kind.startswith("nop5"):
        call = data[-5:]
        assert call[0] == 0xE8
        return site.body + struct.unpack("<i", call[1:])[0]
    if kind.startswith("mov, bl"):
        pad = data[:-8]
        assert pad == pads(place)
        move, branch = struct.unpack("<2I", data[-8:])
        assert move == MOV_X9_LR
        assert branch >> 26 == 0b100101, f"no BL: {branch:#010x}"
        return site.entry + len(pad) + 4 + 4 * signed(branch & 0x3FFFFFF, 26)
    if kind == "sd, auipc, jalr, ld":
        assert struct.unpack("<I8xI", data) == (SD_RA, LD_RA)
        return pair(site.entry + 4, data[4:12], RA)
    return pair(site.entry, data, T0)


def idle(k: Kernel, place: Place, site) -> bytes:
    """What lies between a function's entry and its body while nobody traces it."""
    kind = shape(place)
    if kind.startswith("nop5"):
        return (ENDBR64 if parse(place.release) >= (6, 2) else b"") + NOP5
    if kind.startswith("mov, bl"):
        return pads(place) + struct.pack("<2I", MOV_X9_LR, NOP_ARM64)
    if kind.startswith("auipc fixed"):
        # the upper bits that leave a JALR's signed 12 bits to reach ftrace_caller
        upper = (k.image.address("ftrace_caller") - site.entry + 0x800) & 0xFFFFF000
        return struct.pack("<2I", upper | T0 << 7 | 0x17, NOP4)
    return struct.pack("<I", NOP4) * (4 if kind == "sd, auipc, jalr, ld" else 2)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_patch_sites_hold_the_encodings_of_the_facts(place):
    """Off, on for each way to be called, and off again: bytes, target, literal, and nothing beside them."""
    k = kernel(place)
    f, address = k.function(FUNCTION), k.image.address
    site = f.site
    literal = site.entry - 8 if shape(place).endswith("literal") else None
    assert site.literal == literal
    # rec->ip: the NOP on x86-64; the BL or a lone JALR, one instruction in; the first byte of a longer site
    behind = len(idle(k, place, site)) - 5
    offset = {"nop5": behind, "nop5; literal": behind, "auipc, jalr": 0, "sd, auipc, jalr, ld": 0}.get(shape(place), 4)
    offset += len(pads(place))
    assert site.ip == site.entry + offset
    functions = next((lo, hi - lo) for lo, hi, component in k.image.code if component == "function")
    before = k.machine.read(*functions)

    def now() -> bytes:
        return k.machine.read(site.entry, site.body - site.entry)

    off = idle(k, place, site)
    assert now() == off
    if literal is not None:
        assert site.entry % 8 == 0
        assert k.machine.read_u64(literal) == address("ftrace_nop_ops")

    def hooked(target: str | None, ops: str | None, *requests) -> None:
        """Attach; target and ops name symbols, None is the first ops' own."""
        with k.attached(f, *requests) as registered:
            on = now()
            assert called(place, site, on) == (address(target) if target else registered[0].trampoline)
            if "fixed" in shape(place) or place.isa == "arm64":
                assert on[:4] == off[:4]
            if literal is not None:
                assert k.machine.read_u64(literal) == (address(ops) if ops else registered[0].address)
            after = k.machine.read(*functions)
            changed = {functions[0] + i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b}
            assert changed <= set(range(site.ip, site.body)) | (set(range(literal, site.entry)) if literal else set())
        assert k.machine.read(*functions) == before

    copied = place in X86  # every ops alone has a trampoline for itself
    alone = None if copied else "ftrace_caller"
    hooked(alone, None, Ops())
    hooked(alone, "ftrace_list_ops", Ops(recursion=True))
    hooked("ftrace_caller", "ftrace_list_ops", Ops(), Ops())
    if place.had("regs"):
        hooked("ftrace_regs_caller" if alone else None, None, Ops(save="regs"))
        hooked("ftrace_regs_caller", "ftrace_list_ops" if literal else None, Ops(), Ops(save="regs"))
    if place.had("direct"):
        far = "lab_direct_far" if reaches_all(place) else "ftrace_caller"
        hooked("lab_direct_near", None, Direct())
        hooked(far, None, Direct(far=True))
        common = "ftrace_regs_caller" if place.had("regs") else "ftrace_caller"
        hooked(common, "ftrace_list_ops", Direct(), Ops())


# direct calls

DIRECT = [place for place in PLACES if place.had("direct")]


def reaches_all(place: Place) -> bool:
    """Can a site call every stub by itself? Not with arm64's BL, nor with a fixed AUIPC."""
    return place.isa == "x86_64" or shape(place) == "auipc, jalr"


@pytest.mark.parametrize("place", DIRECT, ids=str)
def test_a_direct_call_goes_straight_where_it_reaches(place):
    """Near: site and stub only. Far: the same, or through the start of ftrace_caller, which saves nothing."""
    k = kernel(place)
    f = k.function(FUNCTION)
    for far in (False, True):
        with k.attached(f, Direct(far=far)):
            run = k.call(f)
        stub = "lab_direct_far" if far else "lab_direct_near"
        ran = {run.symbol_of(s.pc) for s in run.steps if run.component_of(s.pc) == "trampoline"}
        if far and not reaches_all(place):
            # arm64's way out has a name of its own
            assert {stub, "ftrace_caller"} <= ran <= {stub, "ftrace_caller", "ftrace_caller_direct_late"}
            before = [s for s in run.steps if run.component_of(s.pc) == "trampoline" and run.symbol_of(s.pc) != stub]
            assert not any(is_store for s in before for _, _, is_store in s.accesses)
        else:
            assert ran == {stub}


@pytest.mark.parametrize("place", DIRECT, ids=str)
def test_a_direct_call_beside_an_ops_leaves_through_the_common_trampoline(place):
    """The callback of the ops and the direct call both run, in that order, and the function's body after them."""
    k = kernel(place)
    f = k.function(FUNCTION)
    with k.attached(f, Direct(), Ops()):
        run = k.call(f)
    common = "ftrace_regs_caller" if place.had("regs") else "ftrace_caller"
    order = list(dict.fromkeys(run.symbol_of(s.pc) for s in run.steps))
    wanted = [FUNCTION, common, "ftrace_ops_list_func", "lab_callback", "lab_direct_near", "lab_direct_callback"]
    assert [s for s in order if s in wanted] == wanted
    body = [i for i, s in enumerate(run.steps) if f.site.body <= s.pc < f.address + f.size]
    direct = [i for i, s in enumerate(run.steps) if run.symbol_of(s.pc) == "lab_direct_callback"]
    assert max(direct) < min(body)
