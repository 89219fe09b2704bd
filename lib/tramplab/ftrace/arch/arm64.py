"""arm64: one instruction of text per site, and with CALL_OPS eight bytes of data before the function."""

from __future__ import annotations

from ...build.toolchain import GuestConfig
from ...emulate.image import Image
from ...isa.arm64 import BL, MOV_X9_LR, NOP, B
from ..site import Site
from ..steps import INSTRUCTION, Step, Sync, Wait, text, word
from .common import beside, defines, protection, words_before
from .protocol import FeatureTable, Symbols

#: Features that change with a feature that is overridden by hand.
CONSEQUENCES: dict[tuple[str, object], dict[str, object]] = {
    ("call_ops", False): {"site": "mov-bl", "direct": False, "bpf": False},
    ("call_ops", True): {"site": "literal-mov-bl", "args": True, "regs": False, "counter_bits": 19},
    ("args", True): {"regs": False},
    ("args", False): {"regs": True, "site": "mov-bl", "call_ops": False, "direct": False, "bpf": False},
    ("regs", True): {"args": False, "site": "mov-bl", "call_ops": False, "direct": False, "bpf": False, "rethook": False},
    ("regs", False): {"args": True},
    ("kprobes_on_ftrace", True): {"kretprobe_entry": "ftrace"},
    ("kretprobe", "rethook"): {"kretprobe_brk": False},
    ("return_save", "args"): {"kretprobe_brk": False},
    ("return_save", "value"): {"kretprobe_brk": False},
    ("direct", True): {
        "call_ops": True,
        "site": "literal-mov-bl",
        "args": True,
        "regs": False,
        "direct_in_ops": True,
        "counter_bits": 19,
        "bpf": True,
    },
}

#: Return addresses are signed where they are stored (ARM64_PTR_AUTH_KERNEL, on by default).
_SIGNED = "-mbranch-protection=pac-ret"
#: Traced functions begin with a BTI C (ARM64_BTI_KERNEL), in front of the pair that is patched.
_PADS, _PAD_SIZE = "-mbranch-protection=bti", 4

#: Text is written through an alias: a fixmap entry that is set for each write, with this barrier behind it (set_pte()).
_MAPPED = Wait(Sync.DSB_ISHST, "the alias through which text is written is mapped")


def config(features: FeatureTable) -> GuestConfig:
    """The guest with two NOPs at each entry; with CALL_OPS two more before it, and functions 8-byte aligned."""
    literal = features["site"] == "literal-mov-bl"
    nops = "6,4" if features["direct_beside"] else "4,2"
    flags = (f"-fpatchable-function-entry={nops}", "-falign-functions=8") if literal else ("-fpatchable-function-entry=2",)
    pads = (_PADS,) if features["bti"] else ()
    return GuestConfig(defines(features), (*flags, *pads), bool(features["frame_pointer"]), (*protection(features), _SIGNED))


def site(function: str, entry: int, compiled: int, features: FeatureTable) -> Site:
    """The site, whose ip is the second instruction of the pair at the entry: the BL's place. A landing pad comes before the
    pair."""
    literal = compiled + words_before(features) if features["site"] == "literal-mov-bl" else None
    pair = entry + (_PAD_SIZE if features["bti"] else 0)
    return Site(function, entry, pair + 4, pair + 8, literal, compiled)


def boot(s: Site, features: FeatureTable, symbols: Symbols) -> list[Step]:
    """The steps by which the first NOP becomes MOV X9, LR for good, and the literal names no ops."""
    steps: list[Step] = [text(s.ip - 4, MOV_X9_LR, f"{s.function}: save the caller's return address, for good")]
    if s.literal is not None:
        steps += beside(s, features)
        steps.append(text(s.literal, symbols("ftrace_nop_ops").to_bytes(8, "little"), f"{s.function}: no ops yet"))
    return steps


def reaches(s: Site, target: int, features: FeatureTable, symbols: Symbols) -> bool:
    """Does a BL at the site get there?"""
    return BL.reaches(s.ip, target)


def call_bytes(s: Site, target: int, features: FeatureTable, symbols: Symbols) -> bytes:
    """The bytes of the site while it calls target; a jump to an odd target, which no kernel makes."""
    return (B if target & 1 else BL).encode(s.ip, target & ~1)


def nop_bytes(s: Site, features: FeatureTable, symbols: Symbols) -> bytes:
    """The bytes of the site while the function is not traced."""
    return NOP


def write_sites(changes: list[tuple[Site, bytes, str]], features: FeatureTable, image: Image) -> list[Step]:
    """The steps: one aligned instruction for each site, of those that may be replaced while they are executed."""
    steps: list[Step] = []
    for s, data, why in changes:
        steps += [_MAPPED, text(s.ip, data, f"{s.function}: {why}", INSTRUCTION)]
        steps.append(Wait(Sync.IC_IVAU, "the new instruction is visible; other CPUs pick it up in their own time"))
    return steps


def write_word(address: int, value: int, why: str) -> list[Step]:
    """The steps: a store through the same alias as instructions, with no barrier behind it (aarch64_insn_write_literal_u64())."""
    return [_MAPPED, word(address, value, why)]


def flush(why: str) -> list[Step]:
    """The steps of flush_icache_range(), which also sends every CPU an interrupt."""
    return [Wait(Sync.IC_IVAU, "the new code is visible"), Wait(Sync.KICK, why)]


def patch_call(address: int, target: int, why: str, image: Image | None = None) -> list[Step]:
    """Repoint the BL inside a trampoline."""
    new = text(address, BL.encode(address, target), why, INSTRUCTION)
    return [_MAPPED, new, Wait(Sync.IC_IVAU, "the new call is visible")]


def stops_machine(features: FeatureTable) -> bool:
    """Does all of an update happen while every other CPU is stopped?"""
    return False


def update_code(steps: list[Step], features: FeatureTable) -> list[Step]:
    """The steps alone: each of them is safe while the other CPUs run."""
    return steps
