"""A kernel on which ops come and go, as a subject: nothing is carried out, only planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...base.arguments import of_name
from ...emulate.machine import Machine
from ...emulate.traps import Vector
from ...ftrace.layout import Heap
from ...ftrace.meant import stores_below_sp
from ...ftrace.ops import Registered, Request
from ...ftrace.slowpath import SlowPath
from ...ftrace.steps import POINTER, Free, Scope, Step, Wait, Write, word
from ...lab.kernel import Kernel
from ...lab.places import vector
from ...lab.view import Function
from ...trampolines.bpf.request import Bpf
from ...trampolines.direct import Direct
from ..subject import Attachment, Call, Subject

#: What callee-saved registers hold when the function is called.
_KEPT = 0x5AFE_0000_0000_0000
ARGUMENTS = (1, 2, 3)
FUNCTION = "three_args"
#: Where a breakpoint's handler of the lab keeps registers, which in a kernel is on the CPU's own stack, and its count of
#: breakpoints, which no thread asks for.
TRAP_SCRATCH = ("lab_trap_regs", "lab_trap_count")
#: Members of the task where riscv64's entry puts registers until it has a stack.
TASK_SCRATCH = ("trap_a0", "trap_a1", "trap_sp", "kernel_sp")
#: Counts of calls, of which each thread is taken to have its own, as no thread asks for them.
COUNTS = ("lab_direct_hits", "lab_bpf_hits")
#: The guest's struct of a BPF trampoline, with the reference that each call of the function from there holds.
_IMAGE = "bpf_tramp_image"
#: The letters of a play, before a request's name: register it, unregister it, lead a near direct call to the far target.
ON, OFF, LED = "+", "-", "~"
#: Added to the name of an ops that is registered once more.
_AGAIN = " again"


@dataclass
class _Plan:
    """The plan of a play.

    names: of the functions that its ops are for.
    ops: those that were ever registered; one that comes again is another one, as the memory of the first was given back.
    """

    names: tuple[str, ...]
    steps: list[Step] = field(default_factory=list)
    freed: dict[int, tuple[int, int]] = field(default_factory=dict)
    made: list[tuple[int, int, str]] = field(default_factory=list)
    ops: list[tuple[Registered, Attachment]] = field(default_factory=list)
    counter: int | None = None
    left: dict[int, list[int]] = field(default_factory=dict)  # targets that direct calls had before

    def often(self, name: str) -> int:
        """How often the request of a name was registered."""
        return sum(attached.name.partition(_AGAIN)[0] == name for _, attached in self.ops)

    def last(self, name: str) -> int:
        """The index of the ops that was registered last for the request of a name."""
        return max(n for n, (_, attached) in enumerate(self.ops) if attached.name.partition(_AGAIN)[0] == name)

    def called(self) -> tuple[dict[int, frozenset[int]], dict[int, int]]:
        """The callbacks, each with the ops that it is for, and the targets of direct calls, each with its ops."""
        callbacks: dict[int, frozenset[int]] = {}
        direct: dict[int, int] = {}
        for ops, _ in self.ops:
            if ops.is_direct:
                direct |= dict.fromkeys((ops.direct, *self.left.get(ops.address, ())), ops.address)
            else:
                callbacks[ops.func] = callbacks.get(ops.func, frozenset()) | {ops.address}
        return callbacks, direct


@dataclass(frozen=True)
class Stage:
    """A machine on which a change of one function is explored.

    machine: booted.
    slowpath: plans the change. Its bookkeeping is at the end of the play and memory at the beginning, so neither can be used for
        anything else.
    function: whose site changes.
    registers, stack, value: how it is called, and what it returns.
    private, scratch: (address, size) of what a thread writes beside its stack, see Subject.
    vector: the address that breakpoints jump to, None if they are not taken.
    per_cpu: the address of the CPU's data.
    made: (address, size, name) of generated code, which is in no image.
    kernel: whose text it is, "" for the lab's.
    carry_out: executes a plan.
    """

    machine: Machine
    slowpath: SlowPath
    function: Function
    registers: Mapping[str, int]
    stack: tuple[int, ...]
    value: int
    private: tuple[tuple[int, int], ...]
    scratch: tuple[tuple[int, int], ...]
    vector: Vector | None
    carry_out: Callable[[list[Step]], None]
    per_cpu: int = 0
    made: tuple[tuple[int, int, str], ...] = ()
    kernel: str = ""


def in_lab(kernel: Kernel, takes_traps: bool = False) -> Stage:
    """A lab kernel; takes_traps: do breakpoints lead to the guest's handler?"""
    f, cpu, image = kernel.function(FUNCTION), kernel.cpus[0], kernel.image
    registers, stack = kernel.passed(ARGUMENTS, {})
    scratch = [(image.address(n), image.symbol(n).size) for n in (*COUNTS, *(TRAP_SCRATCH if takes_traps else ()))]
    task = image.struct("task_struct")
    scratch += [(cpu.task + task.fields[n].offset, task.fields[n].size) for n in TASK_SCRATCH if takes_traps and n in task.fields]
    return Stage(
        machine=kernel.machine,
        slowpath=kernel.slowpath,
        function=f,
        registers=registers,
        stack=tuple(stack),
        value=kernel.call(f, *ARGUMENTS).value,
        private=((cpu.task, image.struct("task_struct").size), (cpu.pcpu, image.struct("lab_pcpu").size)),
        scratch=tuple(scratch),
        vector=vector(image) if takes_traps else None,
        carry_out=kernel.apply,
        per_cpu=cpu.pcpu,
    )


def subject(
    stage: Stage,
    plays: Sequence[str],
    requests: Mapping[str, Request],
    before: Sequence[str] = (),
    preemptible: bool = True,
    also: Sequence[str] = (),
) -> Subject:
    """plays: "+a" registers the request of that name, "-a" unregisters it, "~a" leads a near direct call to the far target, in
    this order; those in `before` are registered already. also: functions that every ops is for beside the stage's, whose sites
    change before its."""
    plan = _played(stage, plays, requests, before, also)
    callbacks, direct = plan.called()
    image, f = stage.slowpath.image, stage.function
    common = [image.address(n) for n in ("ftrace_caller", "ftrace_regs_caller") if n in image.symbols]
    kept = {r: _KEPT + n for n, r in enumerate(image.isa.callee_saved)}
    return Subject(
        machine=stage.machine,
        entry=f.address,
        end=f.address + f.size,
        body=f.site.body,
        ip=f.site.ip,
        call=Call({**kept, **stage.registers}, stage.stack, stage.value),
        steps=plan.steps,
        freed=plan.freed,
        targets=frozenset([*common, *(at for at, *_ in plan.made), *direct]),
        made=[*stage.made, *plan.made],
        callbacks=callbacks,
        ops=[attachment for _, attachment in plan.ops],
        private=stage.private,
        scratch=stage.scratch,
        direct=direct,
        below=stores_below_sp(stage.slowpath.features),
        preemptible=preemptible,
        vector=stage.vector,
        sleeps=plan.counter is not None,
        counter=plan.counter,
        kernel=stage.kernel,
    )


def _played(
    stage: Stage, plays: Sequence[str], requests: Mapping[str, Request], before: Sequence[str], also: Sequence[str]
) -> _Plan:
    """The plan of the plays when those before have been carried out."""
    for name in (*before, *(play[1:] for play in plays)):
        of_name("request", name, requests)
    plan = _Plan(names=(*also, stage.function.name))
    for name in before:
        _register(stage, plan, name, requests)
        stage.carry_out(plan.steps)
        ops, attached = plan.ops.pop()
        plan.steps, plan.ops = [], [*plan.ops, (ops, replace(attached, on=0))]
    what = {ON: _register, OFF: _unregister, LED: _lead}
    for play in plays:
        what[play[0]](stage, plan, play[1:], requests)
    return plan


def _register(stage: Stage, plan: _Plan, name: str, requests: Mapping[str, Request]) -> None:
    ops, steps = stage.slowpath.register(replace(requests[name], filter=plan.names))
    plan.steps += steps
    if isinstance(ops.request, Bpf) and ops.request.calls_function:
        (image,) = [at for at, what in ops.structs.items() if what.startswith(_IMAGE)]
        (made,) = [step.data for step in steps if isinstance(step, Write) and step.address == image]
        at = stage.slowpath.image.struct(_IMAGE).fields["pcref"].offset
        plan.counter = stage.per_cpu + int.from_bytes(made[at : at + POINTER], "little")
    called = name + _AGAIN * plan.often(name)
    plan.made += [(made.address, made.size, f"{made.name}[{called}]") for made in ops.generated]
    plan.ops.append((ops, Attachment(called, ops.address, on=len(plan.steps))))


def _lead(stage: Stage, plan: _Plan, name: str, requests: Mapping[str, Request]) -> None:
    """Do what modify_ftrace_direct() does: the target in the ops changes while another ops keeps the function on the list."""
    ops, _ = plan.ops[plan.last(name)]
    image = stage.slowpath.image
    plan.left.setdefault(ops.address, []).append(ops.direct)
    ops.direct = image.address(Direct(far=True).target)
    at = ops.address + image.struct("ftrace_ops").fields["direct_call"].offset
    plan.steps.append(word(at, ops.direct, "the direct call's new target"))


def _unregister(stage: Stage, plan: _Plan, name: str, requests: Mapping[str, Request]) -> None:
    which = plan.last(name)
    ops, attached = plan.ops[which]
    before, memory = len(plan.steps), stage.slowpath.memory
    size = memory.image.struct("ftrace_ops").size
    steps = stage.slowpath.unregister(ops)
    for number, step in enumerate(steps, before):
        if isinstance(step, Free):
            if isinstance(step.owner, Heap):
                plan.freed[number] = step.what, step.owner.taken(step.what)
            elif step.owner is memory:
                plan.freed[number] = ops.address, size
    waits = [n for n, step in enumerate(steps, before) if isinstance(step, Wait) and step.sync.scope is Scope.EVERY_TASK]
    plan.steps += steps
    gone = waits[-1] + 1 if waits else len(plan.steps)
    plan.ops[which] = ops, replace(attached, off=before, gone=gone)
