"""Patch sites: what lies there while nobody traces a function, each way to be called, and where a direct call goes.

Encodings and ranges of releases are typed here, from manuals and the kernel, not asked of the package.
"""

from __future__ import annotations

import functools
import struct

import pytest

from support.abi.abi_places import PLACES, Place
from tramplab import Direct, Kernel, Ops
from tramplab.ftrace.releases import parse

FUNCTION = "six_args"  # a leaf


@functools.lru_cache(maxsize=2)
def kernel(place: Place) -> Kernel:
    return Kernel(place.isa, place.release, **dict(place.overrides))


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


def check_hooked(k: Kernel, place: Place, target: str | None, ops: str | None, *requests) -> None:
    """Attach: bytes, target and literal, and nothing beside them. target and ops name symbols, None is the first ops' own."""
    f, address, read = k.function(FUNCTION), k.image.address, k.machine.read
    site = f.site
    literal = range(site.literal, site.entry) if site.literal else range(0)
    start, end = next((lo, hi) for lo, hi, component in k.image.code if component == "function")
    before, off = read(start, end - start), idle(k, place, site)
    with k.attached(f, *requests) as registered:
        on = read(site.entry, site.body - site.entry)
        assert called(place, site, on) == (address(target) if target else registered[0].trampoline)
        if "fixed" in shape(place) or place.isa == "arm64":
            assert on[:4] == off[:4]
        if literal:
            assert k.machine.read_u64(site.literal) == (address(ops) if ops else registered[0].address)
        after = read(start, end - start)
        changed = {start + i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b}
        assert changed <= {*range(site.ip, site.body), *literal}
    assert read(start, end - start) == before


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_patch_sites_hold_the_encodings_of_the_facts(place):
    """Off, on for each way to be called, and off again."""
    k = kernel(place)
    site, off = k.function(FUNCTION).site, idle(k, place, k.function(FUNCTION).site)
    literal = site.entry - 8 if shape(place).endswith("literal") else None
    assert site.literal == literal
    # rec->ip: the NOP on x86-64; the BL or a lone JALR, one instruction in; the first byte of a longer site
    behind = len(off) - 5
    offset = {"nop5": behind, "nop5; literal": behind, "auipc, jalr": 0, "sd, auipc, jalr, ld": 0}.get(shape(place), 4)
    assert site.ip == site.entry + offset + len(pads(place))
    assert k.machine.read(site.entry, site.body - site.entry) == off
    if literal is not None:
        assert site.entry % 8 == 0
        assert k.machine.read_u64(literal) == k.image.address("ftrace_nop_ops")
    # every ops alone has a trampoline for itself, but where x86-64 has CALL_OPS
    alone = None if place.isa == "x86_64" and literal is None else "ftrace_caller"
    check_hooked(k, place, alone, None, Ops())
    check_hooked(k, place, alone, "ftrace_list_ops", Ops(recursion=True))
    check_hooked(k, place, "ftrace_caller", "ftrace_list_ops", Ops(), Ops())
    if place.had("regs"):
        check_hooked(k, place, "ftrace_regs_caller" if alone else None, None, Ops(save="regs"))
        check_hooked(k, place, "ftrace_regs_caller", "ftrace_list_ops" if literal else None, Ops(), Ops(save="regs"))
    if place.had("direct"):
        far = "lab_direct_far" if reaches_all(place) else "ftrace_caller"
        check_hooked(k, place, "lab_direct_near", None, Direct())
        check_hooked(k, place, far, None, Direct(far=True))
        common = "ftrace_regs_caller" if place.had("regs") else "ftrace_caller"
        check_hooked(k, place, common, "ftrace_list_ops", Direct(), Ops())


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
