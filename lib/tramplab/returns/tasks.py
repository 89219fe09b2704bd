"""Several tasks of a lab kernel, each in a call of its own: a call stops where its function's body begins, and goes on later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..base.arguments import whole
from ..base.errors import GuestFault, TramplabError
from ..lab import boot
from ..lab.kernel import Kernel
from ..lab.places import STACK_SIZE, STACK_STRIDE
from ..lab.view import Function

#: Behind the stacks of so many CPUs there is room.
_MOST_CPUS = 64
#: A store that leaves a stack begins at most so many bytes above its end.
_LAST = 512


class StackEnded(GuestFault):
    """A task's stack has no room for the call that it makes. depth: calls that it has come to."""

    def __init__(self, task: int, depth: int) -> None:
        super().__init__(f"task {task} has no stack left for a call {depth + 1} deep.")
        self.depth = depth


@dataclass(eq=False)
class Task:
    """A task: its number, the address of its task_struct, the end of its stack, and the CPU that it stays on.

    bodies: how many function bodies it has reached in its call.
    stops: the stack pointer at the first of them, and at each where it stopped.
    value: what its call returned, None before.
    """

    number: int
    task: int
    stack_top: int
    cpu: boot.Cpu
    bodies: int = 0
    stops: list[int] = field(default_factory=list)
    value: int | None = None
    context: object = None


class Tasks:
    """Tasks on the CPUs of a kernel by turns, all of which call one function. The first on each CPU is the CPU's own; of the others
    the task_struct is from the heap until the end of ready(), and the stack is mapped behind those of CPUs, for good.

    A call is begun with begin() and continued with go_on(); in between any other task may run. Raises TramplabError for less than
    one task, and where the heap is full.
    """

    def __init__(self, kernel: Kernel, function: Function, number: int) -> None:
        number = whole(number, "tasks", 1)
        self._kernel, self._machine, self._function = kernel, kernel.machine, function
        self._taken: list[int] = []
        self._left = 0
        self._stopped = False
        self._now: Task | None = None
        try:
            self.all = [self._made(n) for n in range(number)]
        except TramplabError:
            self._give_back()
            raise
        for cpu in kernel.cpus:
            boot.boot(self._machine, cpu)

    @contextmanager
    def ready(self) -> Iterator[Tasks]:
        """For a `with`: calls stop where the function's body begins. At the end memory is given back."""
        try:
            with self._machine.watching(self._function.site.body, self._arrived):
                yield self
        finally:
            self._give_back()

    def begin(self, task: Task, *arguments: int, bodies: int = 1) -> bool:
        """Have a task call the function, until it comes to a body for the so-manieth time. False if the call returned before that.
        Raises GuestFault, of which StackEnded is one, and StepLimit, after which neither the tasks nor the kernel are of use."""
        task.bodies, task.stops, task.value = 0, [], None
        return self._run(task, self._function.address, arguments, bodies)

    def go_on(self, task: Task, bodies: int = 1) -> bool:
        """Have it continue until it comes to the so-manieth body from here; see begin()."""
        if task.context is None:
            raise TramplabError(f"task {task.number} is in no call; begin() one.")
        return self._run(task, 0, None, bodies)

    def finish(self, task: Task) -> int:
        """Have it continue until its call returns, and give its value."""
        while self.go_on(task, 1 << 30):
            pass
        return task.value or 0

    # inside

    def _made(self, number: int) -> Task:
        kernel, machine = self._kernel, self._machine
        cpu = kernel.cpus[number % len(kernel.cpus)]
        if number < len(kernel.cpus):
            return Task(number, cpu.task, machine.places.stacks[number].end, cpu)
        task = kernel.heap.take(kernel.image.struct("task_struct").size)
        self._taken.append(task)
        boot.boot(machine, boot.Cpu(cpu.number, task, cpu.pcpu))  # as that CPU's; it gets its own back below
        return Task(number, task, self._stack(number) + STACK_SIZE, cpu)

    def _stack(self, number: int) -> int:
        """Where a task's stack begins: as far from the next one as those of CPUs, so that none runs into another, and the entry to
        an exception sees by a bit of the stack pointer whether it has."""
        low = self._machine.places.stacks[0].address + (_MOST_CPUS + number) * STACK_STRIDE
        try:
            self._machine.read(low, 1)
        except TramplabError:
            self._machine.engine.map(low, STACK_SIZE, writable=True, executable=False)
        return low

    def _give_back(self) -> None:
        for at in self._taken:
            self._kernel.heap.give(at)
        self._taken = []

    def _arrived(self) -> None:
        """Called where a function's body begins: stop there if it is time. A call that goes on from its stop has not arrived
        again."""
        if self._stopped:
            self._stopped = False
            return
        if self._now is None:
            return
        self._left -= 1
        self._now.bodies += 1
        if self._now.bodies == 1 or not self._left:
            self._now.stops.append(self._machine.register(self._machine.isa.sp))
        if not self._left:
            self._stopped = True
            self._machine.engine.stop()

    def _run(self, task: Task, start: int, arguments: tuple[int, ...] | None, bodies: int) -> bool:
        machine, isa = self._machine, self._machine.isa
        with machine.on(task.cpu.number):
            saved = machine.engine.save()
            self._switch(task)
            if arguments is not None:
                values = {isa.sp: task.stack_top - 64, isa.fp: task.stack_top - 32}
                machine.enter({**values, **dict(zip(isa.args, arguments, strict=False))})
            self._left, self._now, self._stopped = bodies, task, arguments is None
            try:
                run = machine.run(start or machine.register(isa.pc), machine.return_to)
                task.value, task.context = run.registers[isa.returns[0]], None
            except GuestFault as fault:  # as a machine says of a run that ended elsewhere, where it was stopped here
                if not self._stopped:
                    raise self._explained(task, fault) from None
                task.context = machine.engine.save()
            finally:
                self._now = None
                machine.engine.restore(saved)
                self._current(task.cpu, task.cpu.task)
        return task.value is None

    def _explained(self, task: Task, fault: GuestFault) -> GuestFault:
        """The fault, or StackEnded where the cause is that the task's stack has come to its end."""
        left = self._machine.register(self._machine.isa.sp) - (task.stack_top - STACK_SIZE)
        if left >= _LAST:
            return fault
        return StackEnded(task.number, task.bodies)

    def _switch(self, task: Task) -> None:
        """Switch to a task: set registers and the current task as a context switch leaves them."""
        if task.context is not None:
            self._machine.engine.restore(task.context)
        else:
            for register, holds in self._machine.isa.bases:
                self._machine.set_register(register, {"task": task.task, "pcpu": task.cpu.pcpu}[holds])
        self._current(task.cpu, task.task)

    def _current(self, cpu: boot.Cpu, task: int) -> None:
        at = cpu.pcpu + self._kernel.image.struct("lab_pcpu").fields["current_task"].offset
        self._machine.write_u64(at, task)
