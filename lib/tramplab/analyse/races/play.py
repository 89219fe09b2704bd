"""A lab kernel on which ops come and go, as a subject: nothing is carried out, only planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...ftrace.layout import Heap
from ...ftrace.ops import Registered, Request
from ...ftrace.steps import Free, Step, Wait, Whom
from ...lab.kernel import Function, Kernel
from ...lab.places import vector
from .subject import Attachment, Call, Subject

#: What callee-saved registers hold when the function is called.
_KEPT = 0x5AFE_0000_0000_0000
ARGUMENTS = (1, 2, 3)
FUNCTION = "three_args"
#: Registering and unregistering, before the name of the one that does.
ON, OFF = "+", "-"


@dataclass
class _Plan:
    """What a play adds up to."""

    steps: list[Step] = field(default_factory=list)
    freed: dict[int, tuple[int, int]] = field(default_factory=dict)
    made: list[tuple[int, int, str]] = field(default_factory=list)
    ops: dict[str, tuple[Registered, Attachment]] = field(default_factory=dict)


def subject(
    kernel: Kernel,
    plays: Sequence[str],
    requests: Mapping[str, Request],
    before: Sequence[str] = (),
    preemptible: bool = True,
    takes_traps: bool = False,
) -> Subject:
    """plays: "+a" registers the request of that name, "-a" unregisters it, in this order; those in `before` are registered already.
    takes_traps: do breakpoints lead to the guest's handler? The kernel's bookkeeping is then at the end of the play, and its memory
    at the beginning: use it for nothing else."""
    f = kernel.function(FUNCTION)
    value = kernel.call(f, *ARGUMENTS).value
    plan = _Plan()
    for name in before:
        _register(kernel, f, plan, name, requests)
        kernel.apply(plan.steps)
        ops, attached = plan.ops[name]
        plan.steps, plan.ops[name] = [], (ops, replace(attached, on=0))
    for play in plays:
        (_register if play[0] == ON else _unregister)(kernel, f, plan, play[1:], requests)
    callbacks: dict[int, set[int]] = {}
    direct: dict[int, int] = {}
    for ops, _ in plan.ops.values():
        if ops.is_direct:
            direct[ops.direct] = ops.address
        else:
            callbacks.setdefault(ops.func, set()).add(ops.address)
    common = [kernel.image.address(n) for n in ("ftrace_caller", "ftrace_regs_caller") if n in kernel.image.symbols]
    registers, stack = kernel.passed(ARGUMENTS, {})
    cpu, image = kernel.cpus[0], kernel.image
    return Subject(
        machine=kernel.machine,
        entry=f.address,
        end=f.address + f.size,
        body=f.site.body,
        ip=f.site.ip,
        call=Call({**{r: _KEPT + n for n, r in enumerate(kernel.isa.callee_saved)}, **registers}, tuple(stack), value),
        steps=plan.steps,
        freed=plan.freed,
        targets=frozenset([*common, *(at for at, *_ in plan.made), *direct]),
        made=plan.made,
        callbacks={at: frozenset(all_of) for at, all_of in callbacks.items()},
        ops=[attachment for _, attachment in plan.ops.values()],
        private=((cpu.task, image.struct("task_struct").size), (cpu.pcpu, image.struct("lab_pcpu").size)),
        direct=direct,
        preemptible=preemptible,
        vector=vector(image) if takes_traps else None,
    )


def _register(kernel: Kernel, f: Function, plan: _Plan, name: str, requests: Mapping[str, Request]) -> None:
    ops, steps = kernel.slowpath.register(kernel.filtered(requests[name], f))
    plan.steps += steps
    plan.made += [(made.address, made.size, f"{made.name}[{name}]") for made in ops.generated]
    plan.ops[name] = ops, Attachment(name, ops.address, on=len(plan.steps))


def _unregister(kernel: Kernel, f: Function, plan: _Plan, name: str, requests: Mapping[str, Request]) -> None:
    ops, attached = plan.ops[name]
    before, size = len(plan.steps), kernel.image.struct("ftrace_ops").size
    steps = kernel.slowpath.unregister(ops)
    for number, step in enumerate(steps, before):
        if isinstance(step, Free):
            if isinstance(step.owner, Heap):
                plan.freed[number] = step.what, step.owner.taken(step.what)
            elif step.owner is kernel.slowpath.memory:
                plan.freed[number] = ops.address, size
    waits = [n for n, step in enumerate(steps, before) if isinstance(step, Wait) and step.sync.whom is Whom.EVERY_TASK]
    plan.steps += steps
    gone = waits[-1] + 1 if waits else len(plan.steps)
    plan.ops[name] = ops, Attachment(name, ops.address, attached.on, before, gone)
