"""What a kretprobe's handler that writes down everything wrote: under the kretprobe, or called by an fprobe's shim."""

from __future__ import annotations

from support.abi.abi import BUDGET
from tramplab.ftrace.ops import Request
from tramplab.lab.kernel import Kernel
from tramplab.returns import migration
from tramplab.sparsity.structures import fields, frames
from tramplab.sparsity.structures.fields import PT_REGS
from tramplab.sparsity.structures.registers import register_of

#: What differs with where the structs lie.
_PLACED = ("regs", "kretprobe", "running")


def record(kernel: Kernel, probe: Request, seed: int) -> tuple[list[dict[str, int]], dict[str, int], dict[str, int]]:
    """What the handlers of one call with random registers and stack wrote: of each, in order, what they are told beside registers,
    and of the last one each field of its pt_regs; and all registers after the call."""
    image, machine, function = kernel.image, kernel.machine, kernel.function(frames.of_seed(seed))
    layout, place, count = image.struct("lab_kretprobed"), image.address("lab_kretprobed"), image.address("lab_kretprobed_count")
    start = frames.registers(machine, seed) | frames.idle(kernel, seed)
    with kernel.attached(function, probe):
        frames.fill(machine, start[kernel.isa.sp], seed % 7)
        before = machine.read_u64(count)
        run = kernel.call(function, *((seed >> n) % 1000 for n in (0, 8, 16, 24)), registers=start, budget=BUDGET)
        places = [place + n % 256 * layout.size for n in range(before, machine.read_u64(count))]
    told = []
    for at in places:
        words = {n: machine.read_u64(at + f.offset) for n, f in layout.fields.items() if n != "regs"}
        told.append({n: v for n, v in words.items() if n not in _PLACED} | {"own": words["running"] == words["kretprobe"]})
    data = machine.read(places[-1] + layout.fields["regs"].offset, image.struct(PT_REGS).size)
    return told, {p.name: p.of(data) for p in fields.places(image, PT_REGS)}, run.registers


def complaints(kernel: Kernel, shim: str, seed: int, told: frozenset[str], entry: bool = False) -> list[str]:
    """What an old handler's records under a shim have otherwise than under the kretprobe, and the caller's registers. told: the
    registers that both tell."""
    one, other = (migration.request(kernel, teller, observe=True, entry=entry) for teller in (migration.BEFORE, shim))
    (before, regs, left), (after, shimmed, found) = (record(kernel, probe, seed) for probe in (one, other))
    wrong = [] if before == after else [f"{before}, and with a shim {after}"]
    named = {register_of(kernel.isa, p.name): p.name for p in fields.places(kernel.image, PT_REGS)}
    pairs = {named[r]: (shimmed[named[r]], regs[named[r]]) for r in told}
    wrong += [f"{name} is told as {is_:#x}, not {was:#x}" for name, (is_, was) in pairs.items() if is_ != was]
    kept = (*kernel.isa.callee_saved, kernel.isa.sp, kernel.isa.returns[0])
    return wrong + [f"{r} is left as {found[r]:#x}, not {left[r]:#x}" for r in kept if found[r] != left[r]]

