"""The consumers: code that is handed a structure of registers and draws a conclusion from it, and the fields on which that rests.

Each is a function of guest/consumers/registers.c, run on a structure in guest memory, wherever that came from. Nothing about what
they read is declared here: the emulator sees it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...base.arguments import of_name
from ...base.errors import TramplabError
from ...ftrace import releases
from ...lab.kernel import Kernel
from ..structures.fields import FTRACE_REGS, PT_REGS, WORD, places
from ..structures.watched import Watched, run

#: How a kernel's callchain starts: the answers of the consumer "callchain", by their number (guest/include/registers.h).
STARTS = ("nowhere", "registers", "here")
#: The further words of that consumer's answer, in order.
START = ("ip", "sp", "fp")
#: Kind of structure -> the beginning of the names of guest functions that read it.
_PREFIX = {PT_REGS: "lab_regs_", FTRACE_REGS: "lab_fregs_"}


@dataclass(frozen=True)
class Consumer:
    """A function that concludes something from registers.

    title: its conclusion, as a question.
    stands_for: the kernel's function.
    kinds: the structures that it can read.
    number: the meaning of the number that it takes, "" for none.
    changes: does it write to the structure?
    """

    name: str
    title: str
    stands_for: str
    kinds: tuple[str, ...] = (PT_REGS,)
    number: str = ""
    changes: bool = False


_BOTH = (PT_REGS, FTRACE_REGS)
_EMULATED = "the instruction"
_TABLE = (
    Consumer("user-mode", "Was it user space?", "user_mode()"),
    Consumer(
        "callchain",
        "Where does a kernel callchain start?",
        "get_perf_callchain(), perf_callchain_kernel()",
        number="1 if ip is the first entry whatever flags say, as on x86-64 up to v6.17",
    ),
    Consumer("argument", "What is argument n?", "regs_get_kernel_argument()", _BOTH, "which argument, from 0"),
    Consumer("return-value", "What is returned?", "regs_return_value()", _BOTH),
    Consumer("instruction-pointer", "Where was it?", "instruction_pointer()", _BOTH),
    Consumer("stack-pointer", "Where is its stack?", "kernel_stack_pointer()", _BOTH),
    Consumer("stack-word", "What is word n of its stack?", "regs_get_kernel_stack_nth()", _BOTH, "which word above sp, from 0"),
    Consumer("interrupts", "Were interrupts on?", "regs_irqs_disabled()"),
    Consumer("conditions", "What were the condition flags?", "none: what a conditional instruction goes by"),
    Consumer("register", "What is in slot n?", "regs_get_register()", number="which word of the structure, from 0"),
    Consumer("full", "Is it a full pt_regs?", "ftrace_get_regs()", (FTRACE_REGS,)),
    Consumer("emulate-nop", "What does the patch site's NOP do?", "a kprobe on ftrace", changes=True),
    Consumer("emulate-branch", "Where does a conditional branch go?", "a kprobe that emulates", number=_EMULATED, changes=True),
    Consumer("emulate-call", "What does a call do?", "a kprobe that emulates", number=_EMULATED, changes=True),
    Consumer("emulate-step", "What does one more instruction do?", "a kprobe that emulates", number=_EMULATED, changes=True),
)
CONSUMERS = {consumer.name: consumer for consumer in _TABLE}

#: Per ISA, an instruction for each consumer that emulates one; of the registers it reads, if any, one is among those that functions
#: keep. They are: je, call, push rbx; b.eq, bl, add x0, x19, #1; beq a0, s1, jalr (s1), addi a0, s1, 1.
INSTRUCTIONS = {
    "x86_64": {"emulate-branch": 0x0E74, "emulate-call": 0xFBE8, "emulate-step": 0x53},
    "arm64": {"emulate-branch": 0x54000080, "emulate-call": 0x94000040, "emulate-step": 0x91000660},
    "riscv64": {"emulate-branch": 0x00950863, "emulate-call": 0x000480E7, "emulate-step": 0x00148513},
}


@dataclass(frozen=True)
class Reading:
    """What one consumer did with one structure.

    answer: its result; None where it read what is not there and the lab's CPU stopped (a kernel, which reads stacks with care, goes
        on with 0).
    start: of a callchain, ip, sp and fp, 0 for those that it does not take from the structure.
    fields, wrote: fields of the structure that it read and wrote, in the order of the first access.
    beyond: addresses of the other words it read.
    watched: the run.
    """

    consumer: Consumer
    kind: str
    number: int
    answer: int | None
    start: tuple[int, ...]
    fields: tuple[str, ...]
    wrote: tuple[str, ...]
    beyond: tuple[int, ...]
    watched: Watched


def consumer(name: str) -> Consumer:
    """A consumer by its name; raises TramplabError with near matches."""
    return of_name("consumer", name, CONSUMERS)


def read(kernel: Kernel, name: str, kind: str, address: int, number: int | None = None) -> Reading:
    """Run a consumer on the structure at an address in guest memory.

    kind: "pt_regs" or "ftrace_regs". number: what the consumer's `number` says, of an instruction its bytes as a little-endian
    number; if left out 0, the one of INSTRUCTIONS, and of a callchain what the kernel's release does. Raises TramplabError for
    an unknown consumer or kind, one that does not read that kind, a number where none is taken, and a kernel that does not record.
    """
    who = consumer(name)
    places(kernel.image, kind)
    if kind not in who.kinds:
        raise TramplabError(f"{name} reads a {' or a '.join(who.kinds)}, not a {kind}.")
    if number is not None and not who.number:
        raise TramplabError(f"{name} takes no number; leave {number} out.")
    given = _usual(kernel, who) if number is None else number
    seen = run(kernel, _PREFIX[kind] + name.replace("-", "_"), {kind: address}, given)
    start = seen.more[: len(START)] if name == "callchain" else ()
    return Reading(who, kind, given, seen.result, start, seen.read[kind], seen.wrote[kind], seen.beyond, seen)


def _usual(kernel: Kernel, who: Consumer) -> int:
    if who.name == "callchain":  # what was first in it has changed on x86-64
        return int(releases.registers(kernel.isa.name, kernel.features.release, "callchain").value == "always")
    return INSTRUCTIONS[kernel.isa.name].get(who.name, 0)


def slots(kernel: Kernel, address: int) -> tuple[str, ...]:
    """The fields that regs_get_register() gives out, of the pt_regs at an address: each slot in turn, as long as it reads one."""
    size = kernel.image.struct(PT_REGS).size
    found = (read(kernel, "register", PT_REGS, address, n).fields for n in range(size // WORD + 1))
    return tuple(field for fields in found for field in fields)
