"""x86-64: five bytes of text per site, patched under a breakpoint."""

from __future__ import annotations

from ...build.toolchain import GuestConfig
from ...isa.x86_64 import CALL, INT3, JMP, NOP5
from ..site import Site
from ..steps import Step, Sync, Wait, text
from .common import defines

#: What overriding a feature by hand brings with it.
CONSEQUENCES: dict[tuple[str, object], dict[str, object]] = {
    ("direct", False): {"direct_in_ops": False, "direct_jmp": False},
    # a direct call that shares its function leaves through ftrace_regs_caller
    ("regs", False): {"direct": False, "direct_in_ops": False, "direct_jmp": False},
}

#: Between two stores to one site.
_SYNC = Sync.TEXT_POKE


def config(features) -> GuestConfig:
    """Five bytes for the compiler to reserve; landing pads where IBT is on."""
    flags = ("-fpatchable-function-entry=5",)
    if features["ibt"]:
        flags += ("-fcf-protection=branch",)
    return GuestConfig(defines(features), flags, bool(features["frame_pointer"]))


def site(function: str, entry: int, compiled: int, features) -> Site:
    """The site starts where the compiler says, behind the landing pad if there is one; it is its own ip."""
    return Site(function, entry, compiled, compiled + CALL.size, None, compiled)


def boot(s: Site, features, symbols) -> list[Step]:
    """The compiler's padding becomes the kernel's five-byte NOP."""
    return [text(s.ip, NOP5, f"{s.function}: the compiler's padding becomes one NOP")]


def reaches(s: Site, target: int, features, symbols) -> bool:
    return CALL.reaches(s.ip, target)


def call_bytes(s: Site, target: int, features, symbols) -> bytes:
    """What the site holds while it calls target; an odd target (v6.19 on) is jumped to."""
    return JMP.encode(s.ip, target & ~1) if target & 1 else CALL.encode(s.ip, target)


def nop_bytes(s: Site, features, symbols) -> bytes:
    return NOP5


def write_sites(changes: list[tuple[Site, bytes, str]], features) -> list[Step]:
    """Many sites at once: breakpoint first, then the tails, then the first bytes, with all CPUs in step in between."""
    if not changes:
        return []
    steps: list[Step] = [text(s.ip, INT3, f"{s.function}: breakpoint, {why}") for s, _, why in changes]
    steps.append(Wait(_SYNC, "every CPU sees the breakpoints"))
    steps += [text(s.ip + 1, data[1:], f"{s.function}: tail, {why}") for s, data, why in changes]
    steps.append(Wait(_SYNC, "every CPU sees the tails"))
    steps += [text(s.ip, data[:1], f"{s.function}: first byte, {why}") for s, data, why in changes]
    steps.append(Wait(_SYNC, "every CPU sees the new instructions"))
    return steps


def patch_call(address: int, target: int, why: str) -> list[Step]:
    """Repoint the call inside a trampoline."""
    data = CALL.encode(address, target)
    return [
        text(address, INT3, f"breakpoint, {why}"),
        Wait(_SYNC, "every CPU sees the breakpoint"),
        text(address + 1, data[1:], f"tail, {why}"),
        Wait(_SYNC, "every CPU sees the tail"),
        text(address, data[:1], f"first byte, {why}"),
        Wait(_SYNC, "every CPU sees the new call"),
    ]


def stops_machine(features) -> bool:
    """Does all of an update happen while every other CPU is stopped?"""
    return False


def update_code(steps: list[Step], features) -> list[Step]:
    """Nothing around the steps: each of them is safe while the other CPUs run."""
    return steps
