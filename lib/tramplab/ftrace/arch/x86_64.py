"""x86-64: five bytes of text per site, patched under a breakpoint; with CALL_OPS, which no kernel has here, eight bytes of data
before the function."""

from __future__ import annotations

from ...build.toolchain import GuestConfig
from ...emulate.image import Image
from ...isa.x86_64 import CALL, ENDBR64, INT3, JMP, NOP5
from ..layout import fields
from ..site import Site
from ..steps import Step, Sync, Wait, block, pointer, text, word
from .common import defines, protection
from .protocol import FeatureTable, Symbols

#: A site with the callsite's ops before the function: no kernel of this ISA has it.
_LITERAL = "literal-nop5"

#: Features that change with a feature that is overridden by hand.
CONSEQUENCES: dict[tuple[str, object], dict[str, object]] = {
    ("direct", False): {"direct_in_ops": False, "direct_jmp": False, "bpf": False},
    # a direct call that shares its function leaves through ftrace_regs_caller
    ("regs", False): {"direct": False, "direct_in_ops": False, "direct_jmp": False, "bpf": False},
    ("kprobes_on_ftrace", False): {"kretprobe_entry": False},
    # no kernel: the common trampolines serve every ops, so none has a copy
    ("call_ops", True): {"site": _LITERAL, "args": True, "per_ops_trampoline": False, "counter_bits": 19},
}

#: Between two stores to one site.
_SYNC = Sync.TEXT_POKE


def config(features: FeatureTable) -> GuestConfig:
    """The guest with five bytes at each entry, with CALL_OPS eight more before the function, which is aligned then, and with
    landing pads where IBT is on."""
    pads: tuple[str, ...] = ("-fcf-protection=branch",) if features["ibt"] else ()
    literal = features["site"] == _LITERAL
    nops = ("-fpatchable-function-entry=13,8", "-falign-functions=8") if literal else ("-fpatchable-function-entry=5",)
    sites = (*nops, *pads)
    return GuestConfig(defines(features), sites, bool(features["frame_pointer"]), (*protection(features), *pads))


def site(function: str, entry: int, compiled: int, features: FeatureTable) -> Site:
    """The site, which is its own ip, behind the landing pad if there is one. `compiled` is the site itself, or where there is a
    word before the function, that word."""
    literal = compiled if features["site"] == _LITERAL else None
    ip = compiled if literal is None else entry + (len(ENDBR64) if features["ibt"] else 0)
    return Site(function, entry, ip, ip + CALL.size, literal, compiled)


def boot(s: Site, features: FeatureTable, symbols: Symbols) -> list[Step]:
    """The steps by which the compiler's padding becomes the kernel's five-byte NOP; the literal, if there is one, names no ops."""
    steps: list[Step] = [text(s.ip, NOP5, f"{s.function}: the compiler's padding becomes one NOP")]
    if s.literal is not None:
        steps.append(text(s.literal, pointer(symbols("ftrace_nop_ops")), f"{s.function}: no ops yet"))
    return steps


def reaches(s: Site, target: int, features: FeatureTable, symbols: Symbols) -> bool:
    """Does a CALL or a JMP at the site get there?"""
    return CALL.reaches(s.ip, _place(target, features)[0])


def _place(target: int, features: FeatureTable) -> tuple[int, bool]:
    """The address of a target, and whether it is to be jumped to, as an odd one is from v6.19 on."""
    return (target & ~1, bool(target & 1)) if features["direct_jmp"] else (target, False)


def call_bytes(s: Site, target: int, features: FeatureTable, symbols: Symbols) -> bytes:
    """The bytes of the site while it calls target; an odd target (v6.19 on) is jumped to."""
    place, jump = _place(target, features)
    return (JMP if jump else CALL).encode(s.ip, place)


def nop_bytes(s: Site, features: FeatureTable, symbols: Symbols) -> bytes:
    """The bytes of the site while the function is not traced."""
    return NOP5


def write_sites(changes: list[tuple[Site, bytes, str]], features: FeatureTable, image: Image) -> list[Step]:
    """The steps for many sites at once: breakpoints, then tails, then first bytes, with all CPUs in step in between."""
    most = image.symbol("lab_pokes").size // image.struct("lab_poke").size
    steps: list[Step] = []
    for batch in (changes[n : n + most] for n in range(0, len(changes), most)):
        steps += _under_breakpoints([(s.ip, data, f"{s.function}: ", why) for s, data, why in batch], image)
    return steps


def write_word(address: int, value: int, why: str) -> list[Step]:
    """The step: a store without a barrier, as the stores of a CPU are seen in order."""
    return [word(address, value, why)]


def flush(why: str) -> list[Step]:
    """No steps: a CPU that has never executed an address finds what memory holds (SDM volume 3, 9.1.3 is of text in use)."""
    return []


def patch_call(address: int, target: int, why: str, image: Image | None = None) -> list[Step]:
    """Repoint the call inside a trampoline; image: of a guest whose CPUs may meet the breakpoint meanwhile."""
    return _under_breakpoints([(address, CALL.encode(address, target), "", why)], image)


def _under_breakpoints(changes: list[tuple[int, bytes, str, str]], image: Image | None) -> list[Step]:
    """The steps for each (address, instruction, whose, why): what a CPU is to do that meets the breakpoint, the breakpoint, the
    instruction's tail, and its first byte."""
    end = "" if len(changes) == 1 else "s"
    steps, done = _announced(changes, image) if image else ([], [])
    steps += [text(at, INT3, f"{whose}breakpoint, {why}") for at, _, whose, why in changes]
    steps.append(Wait(_SYNC, f"every CPU sees the breakpoint{end}"))
    steps += [text(at + 1, data[1:], f"{whose}tail, {why}") for at, data, whose, why in changes]
    steps.append(Wait(_SYNC, f"every CPU sees the tail{end}"))
    steps += [text(at, data[:1], f"{whose}first byte, {why}") for at, data, whose, why in changes]
    steps.append(Wait(_SYNC, f"every CPU sees the new instruction{end}"))
    return steps + done


def _announced(changes: list[tuple[int, bytes, str, str]], image: Image) -> tuple[list[Step], list[Step]]:
    """The writes that tell a CPU that meets a breakpoint what to do there, and the one that ends this."""
    base, size = image.address("lab_pokes"), image.struct("lab_poke").size
    steps: list[Step] = []
    for n, (at, data, whose, _) in enumerate(sorted(changes)):
        disp = int.from_bytes(data[1:], "little")
        poke = fields(image, "lab_poke", {"ip": at, "disp": disp, "opcode": data[0]})
        steps.append(block(base + n * size, poke, f"{whose}what its breakpoint stands for"))
    number = image.address("lab_pokes_nr")
    steps.append(word(number, len(changes), "breakpoints that may be met from now on"))
    return steps, [word(number, 0, "no breakpoint is left")]


def stops_machine(features: FeatureTable) -> bool:
    """Does all of an update happen while every other CPU is stopped?"""
    return False


def update_code(steps: list[Step], features: FeatureTable) -> list[Step]:
    """The steps alone: each of them is safe while the other CPUs run."""
    return steps
