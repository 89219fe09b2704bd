"""riscv64: sixteen, eight or four bytes of text per site, and with CALL_OPS eight bytes of data before the function."""

from __future__ import annotations

from ...build.toolchain import GuestConfig
from ...emulate.image import Image
from ...isa.riscv64 import CALL_RA, CALL_T0, LD_RA, NOP4, SD_RA, T0, auipc, jalr, split_offset
from ..site import Site
from ..steps import INSTRUCTION, Step, Sync, Wait, text, word
from .common import beside, defines, protection, words_before
from .protocol import FeatureTable, Symbols

#: Features that change with a feature that is overridden by hand.
_ATOMIC = {
    "site": "literal-auipc-jalr",
    "args": True,
    "regs": False,
    "call_ops": True,
    "pt_regs_frame": False,
    "graph_slot": False,
    "counter_bits": 19,
    "kprobes_on_ftrace": False,
    "kretprobe_entry": "breakpoint",
}
#: Consequences of sites at a function's first instruction: the function takes a kretprobe through ftrace or none, and ftrace serves
#: kprobes only with a trampoline for all registers.
_FIRST = {"site": "detour8", "kretprobe_entry": False}
_FIRST_ARGS = {**_FIRST, "pt_regs_frame": False, "graph_slot": False, "kprobes_on_ftrace": False}
CONSEQUENCES: dict[tuple[str, object], dict[str, object]] = {
    ("call_ops", False): {"site": "auipc-jalr", "direct": False, "call_dest": True, "bpf": False},
    ("call_ops", True): {**_ATOMIC, "call_dest": False},
    ("args", True): {**_FIRST_ARGS, "regs": False},
    ("args", False): {"regs": True, "call_ops": False, **_FIRST},
    ("regs", True): {"args": False, "call_ops": False, **_FIRST, "rethook": False},
    ("regs", False): {**_FIRST_ARGS, "args": True},
    ("kprobes_on_ftrace", True): {"kretprobe_entry": "ftrace"},
    ("kprobes_on_ftrace", False): {"kretprobe_entry": False},
    ("direct", True): {**_ATOMIC, "direct_in_ops": True, "bpf": True},
}

#: Bytes of a site of each shape, and the offset of rec->ip in it.
_SIZE = {"detour16": 16, "detour8": 8, "auipc-jalr": 8, "literal-auipc-jalr": 8}
_IP = {"detour16": 0, "detour8": 0, "auipc-jalr": 4, "literal-auipc-jalr": 4}
_FIXED_AUIPC = ("auipc-jalr", "literal-auipc-jalr")
_JALR_REACH = (-2048, 2047)
#: Traced functions of a kernel without RISCV_ISA_C have no compressed instructions.
_FULL_SIZE = "-march=rv64ima_zicsr_zifencei"


def config(features: FeatureTable) -> GuestConfig:
    """The guest with so many NOPs at each entry: of two bytes where the compiler may compress, else of four."""
    size, march = (2, ()) if features["compressed"] else (4, (_FULL_SIZE,))
    before = 16 if features["direct_beside"] else 8
    flags = {
        "detour16": (_nops(16 // size),),
        "detour8": (_nops(8 // size),),
        "auipc-jalr": (_nops(8 // size), "-falign-functions=4"),
        "literal-auipc-jalr": (_nops((8 + before) // size, before // size), "-falign-functions=8"),
    }[features["site"]]
    names = defines(features) + (("CONFIG_RISCV_DETOUR_16",) if features["site"] == "detour16" else ())
    return GuestConfig(names, (*flags, *march), bool(features["frame_pointer"]), protection(features))


def _nops(every: int, before: int = 0) -> str:
    """The compiler's flag for so many NOPs, of which `before` stand before the function."""
    return f"-fpatchable-function-entry={every}" + (f",{before}" if before else "")


def site(function: str, entry: int, compiled: int, features: FeatureTable) -> Site:
    """The site, whose ip is the first byte of the pair, or with a fixed AUIPC the JALR behind it."""
    shape = features["site"]
    literal = compiled + words_before(features) if shape == "literal-auipc-jalr" else None
    return Site(function, entry, entry + _IP[shape], entry + _SIZE[shape], literal, compiled)


def boot(s: Site, features: FeatureTable, symbols: Symbols) -> list[Step]:
    """The steps by which compressed NOPs become four-byte ones, and a fixed AUIPC is written, once and for all."""
    idle = nop_bytes(s, features, symbols)
    if features["site"] not in _FIXED_AUIPC:
        return [text(s.ip, idle, f"{s.function}: compressed NOPs become full ones")]
    upper, _ = split_offset(symbols("ftrace_caller") - s.entry)
    steps: list[Step] = [
        text(s.entry, auipc(T0, upper), f"{s.function}: AUIPC towards ftrace_caller, for good"),
        text(s.ip, idle, f"{s.function}: compressed NOPs become a full one"),
    ]
    if s.literal is not None:
        steps += beside(s, features)
        steps.append(text(s.literal, symbols("ftrace_nop_ops").to_bytes(8, "little"), f"{s.function}: no ops yet"))
    return steps


def _window(s: Site, symbols: Symbols) -> int:
    """The address that the site's fixed AUIPC leaves in t0."""
    return s.entry + (split_offset(symbols("ftrace_caller") - s.entry)[0] << 12)


def reaches(s: Site, target: int, features: FeatureTable, symbols: Symbols) -> bool:
    """Can the site call target? A full pair goes anywhere in the kernel; a fixed AUIPC leaves the 4 KiB around ftrace_caller."""
    if features["site"] not in _FIXED_AUIPC:
        return CALL_T0.reaches(s.entry + (4 if features["site"] == "detour16" else 0), target)
    return _JALR_REACH[0] <= target - _window(s, symbols) <= _JALR_REACH[1]


def call_bytes(s: Site, target: int, features: FeatureTable, symbols: Symbols) -> bytes:
    """The bytes of the patched part of the site while it calls target."""
    if features["site"] == "detour16":
        return SD_RA + CALL_RA.encode(s.entry + 4, target) + LD_RA
    if features["site"] == "detour8":
        return CALL_T0.encode(s.entry, target)
    return jalr(T0, T0, target - _window(s, symbols))


def nop_bytes(s: Site, features: FeatureTable, symbols: Symbols) -> bytes:
    """The bytes of the patched part of the site while the function is not traced."""
    return NOP4 * ((s.body - s.ip) // len(NOP4))


def write_sites(changes: list[tuple[Site, bytes, str]], features: FeatureTable, image: Image) -> list[Step]:
    """The steps that write all sites in turn; update_code() keeps the other harts from them."""
    return [text(s.ip, data, f"{s.function}: {why}", INSTRUCTION) for s, data, why in changes]


def patch_call(address: int, target: int, why: str, image: Image | None = None) -> list[Step]:
    """Repoint the AUIPC/JALR pair inside a trampoline."""
    return [text(address, CALL_RA.encode(address, target), why, INSTRUCTION)]


def stops_machine(features: FeatureTable) -> bool:
    """Does all of an update happen while every other hart is stopped?"""
    return features["site"] not in _FIXED_AUIPC


def update_code(steps: list[Step], features: FeatureTable) -> list[Step]:
    """The steps with a stop of every other hart around them where pairs change; a lone aligned JALR changes while they run."""
    if stops_machine(features):
        return [
            Wait(Sync.STOP_MACHINE, "every other hart waits"),
            *steps,
            Wait(Sync.FENCE_I, "every hart refetches and continues"),
        ]
    return [*steps, *flush("every hart refetches")]


def flush(why: str) -> list[Step]:
    """The steps of flush_icache_all(), with the fence that it has since v6.16 (ca358692de41)."""
    return [Wait(Sync.FENCE_WO, "what was written is visible before harts are asked to refetch"), Wait(Sync.FLUSH_ICACHE, why)]


def write_word(address: int, value: int, why: str) -> list[Step]:
    """The steps of patch_text_nosync(), which flushes the instruction caches also behind data."""
    return [word(address, value, why), *flush("patch_text_nosync() flushes, though this is data")]
