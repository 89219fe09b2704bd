"""BPF trampolines, made by the lab's generator around the kernel's own enter and exit functions; as without KASLR, near where the
site reaches anything."""

from __future__ import annotations

from ...base.errors import TramplabError
from ...build.dwarf import Prototype
from ...lab.view import Function
from ...trampolines.arguments import sizes, words
from ...trampolines.bpf import Bpf, trampolines
from ...trampolines.bpf.code import lay_out
from ...trampolines.bpf.plan import BpfProgram, Guards, TrampolinePlan
from ...trampolines.bpf.shape import items
from ...trampolines.bpf.signature import require_taken
from ..run import layout, stubs
from ..run.arguments import registers
from ..run.machine import RealMachine
from . import directs, inplace
from .hook import Absent, Expected, Hook, Observed, require

_GUARDS = ("__bpf_prog_enter_recur", "__bpf_prog_exit_recur", "__bpf_tramp_enter", "__bpf_tramp_exit")


def _program(machine: RealMachine) -> tuple[BpfProgram, int]:
    """A program: its struct, with a counter of entries for each CPU, and its code; and the block that it fills."""
    block, counter = machine.block(bytes(stubs.BLOCK)), machine.block(bytes(16))
    struct = machine.block(layout.fields(machine, "bpf_prog", {"active": machine.cpu.pointer(counter)}))
    code = machine.code(lambda _: stubs.program(machine.isa, block), "bpf_prog", "own")
    return BpfProgram(code, struct, 0), block


def _prototype(machine: RealMachine, function: Function) -> Prototype:
    """The function's, where BPF can attach to it and its trampolines are laid out here; raises Absent."""
    require(machine, "call_direct_funcs")
    if machine.opened.has("__bpf_prog_enter") and not machine.opened.has(_GUARDS[0]):
        raise Absent(f"BPF's trampolines of {machine.opened.version} call other guards, without {_GUARDS[0]}(): not laid out here")
    require(machine, *_GUARDS)
    prototype = machine.opened.prototype(function.name)
    if prototype is None:
        raise Absent(f"the image's types say nothing of {function.name}(), so BPF cannot attach to it")
    try:
        require_taken(prototype, machine.features)
    except TramplabError as e:
        raise Absent(str(e).rstrip(".")) from None
    return prototype


def _attach(machine: RealMachine, function: Function, fexit: bool) -> Expected:
    prototype = _prototype(machine, function)
    program, block = _program(machine)
    counter = machine.cpu.pointer(machine.block(bytes(16)))
    image = machine.block(bytes(machine.opened.struct("bpf_tramp_image").size))
    inplace.put(machine, "percpu_ref", inplace.member(machine, "bpf_tramp_image", image, "pcref"), {"percpu_count_ptr": counter})
    run_ctx = machine.opened.struct("bpf_tramp_run_ctx")
    plan = TrampolinePlan(
        words=words(machine.isa, prototype),
        sizes=sizes(prototype),
        fentry=() if fexit else (program,),
        fmod_ret=(),
        fexit=(program,) if fexit else (),
        guards=Guards(*map(machine.address, _GUARDS)),
        image=image,
        body=function.site.body,
        run_ctx=run_ctx.size,
        cookie_at=run_ctx.fields["bpf_cookie"].offset,
        program_nops=bool(machine.features["bpf_program_nop"]),
        pushes_saved=trampolines.pushes_saved(machine.features),
        jumped=fexit and bool(machine.features["direct_jmp"]),
        landing_pad=False,
    )
    arch = trampolines.MODULES[machine.isa.name]
    pieces = list(items(plan, arch))
    target = machine.code(lambda base: lay_out(machine.isa, arch, pieces, base), "bpf_trampoline") | plan.jumped
    ops = directs.register(machine, function, target)
    layout.link(machine, [ops])
    directs.alone(machine, function, ops, target)
    kept = tuple(place for place in plan.words if isinstance(place, str))
    first = registers(machine.isa)[kept[0]] if plan.words and plan.words[0] in kept else None
    expected = Expected((Observed(block, 1, first, None, "the program"),), kept)

    def entered() -> None:
        at = machine.machine.register(machine.isa.args[0])
        expected.arrays.append([machine.machine.read_u64(at + 8 * n) for n in range(len(plan.words))])

    machine.watch(program.code, entered)
    return expected


HOOKS = (
    Hook("bpf-fentry", lambda m, f: _attach(m, f, False), asked=lambda: [Bpf(fentry=1, kaslr=False)]),
    Hook("bpf-fexit", lambda m, f: _attach(m, f, True), asked=lambda: [Bpf(fexit=1, kaslr=False)]),
)
