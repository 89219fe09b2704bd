"""Trials of findings on a booted kernel: what is done, and what is read, under a label each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..base.arguments import of_name
from ..ftrace.ops import FL_RCU, FL_RECURSION
from . import plan
from .probes import END, ENTRY, NUMBER, PERF_TRACEPOINT, RETURN, TRACING, code, event, multi, traced
from .trial import READING, Trial, do, ops

_COUNT = f"count {plan.CALLS:x} {plan.BLOCKS:x}"
_CALLS, _SEGMENTS, _DECLINES, _PLACES, _DATA_SHIFT = 2, 4, 16, 32, 8  # of an fprobe, see ko/fprobes.h
#: For attr.exclude_user and attr.exclude_kernel of struct perf_event_attr.
_EXCLUDE_USER, _EXCLUDE_KERNEL = 1 << 4, 1 << 5
_GET_STACK = 67  # include/uapi/linux/bpf.h: bpf_get_stack()
_ROOM = 256
#: r2 = r10 - 256; r3 = 256; r4 = 0; r0 = bpf_get_stack(r1, r2, r3, r4); the number = r0
_STACK = code(
    (0xBF, 0xA2, 0, 0),
    (0x07, 2, 0, -_ROOM),
    (0xB7, 3, 0, _ROOM),
    (0xB7, 4, 0, 0),
    (0x85, 0, 0, _GET_STACK),
    *NUMBER,
    (0x7B, 0x01, 0, 0),
    *END,
)
_LEAF = plan.LEAF
_SLEPT = "hrtimer_nanosleep"
_FLAGGED = f"find {TRACING}/enabled_functions {_LEAF}"
_GUARD = Trial(
    "guard-lost",
    "an ops that asks for the recursion guard, before and after a plain ops has come and gone",
    ("int_sqrt",),
    (
        "say say plain",
        ops("o", 0, "leaf"),
        _COUNT,
        do("O 0"),
        "say say guarded",
        ops("o", 0, "leaf", FL_RECURSION),
        _COUNT,
        _FLAGGED,
        "say say guarded-and-plain",
        ops("o", 1, "leaf"),
        _COUNT,
        "say say plain-left",
        do("O 1"),
        _COUNT,
        _FLAGGED,
        do("O 0"),
        "say say guarded-left",
        ops("o", 0, "leaf", FL_RECURSION),
        ops("o", 1, "leaf"),
        do("O 0"),
        _COUNT,
        do("O 1"),
        "say say none",
        _COUNT,
        "say say calls-itself-guarded",
        ops("c", 0, "int_sqrt", FL_RECURSION),
        do("x 4"),
        READING,
        "say say calls-itself-after",
        ops("o", 1, "int_sqrt"),
        do("O 1"),
        do("x 4"),
        READING,
    ),
)


def _on_leaf(steps: Sequence[str]) -> list[str]:
    """The steps of a probe, for the function that getpid() calls."""
    return [step.replace("{name}", _LEAF) for step in steps]


def _perf_of(definition: str) -> Iterator[str]:
    """The steps that count with perf an event of tracefs: how many of ten calls are the kernel's, and how many the user's."""
    part = event(definition)
    yield from _on_leaf(part.on)
    for flags in (_EXCLUDE_USER, _EXCLUDE_KERNEL):
        yield f"perf {PERF_TRACEPOINT} {TRACING}/events/tramplab/event0/id - 0 {flags:x}"
        yield from ("enable", f"calls {plan.READ:x}", "hits", "close")
    yield from _on_leaf(part.off)


def _stack_of(at_return: bool) -> Iterator[str]:
    """The steps that read how many bytes of kernel stack a BPF program gets."""
    part = multi(at_return, _STACK)
    yield from _on_leaf(part.on)
    yield from ("calls 1", "hits", *part.off)


#: perf records an event of another kind on the way; what it leaves in the CPU's registers for events is there afterwards.
_OTHER_EVENT = (
    f"perf {PERF_TRACEPOINT} {TRACING}/events/raw_syscalls/sys_enter/id - 0 0",
    *("enable", "calls 1", "hits", "close"),
)
_USER = Trial(
    "user-mode",
    "what perf takes a traced kernel function for, and how much kernel stack BPF gets of it",
    (),
    (
        "say say kprobe-event",
        *_perf_of(f"p {_LEAF}"),
        "say say fprobe-event",
        *_perf_of(f"f {_LEAF}"),
        "say say fprobe-event-return",
        *_perf_of(f"f {_LEAF}%return"),
        "say say stack-kprobe-multi",
        *_stack_of(False),
        "say say stack-kretprobe-multi",
        *_stack_of(True),
        "say say fprobe-event-after",
        *_OTHER_EVENT,
        *_perf_of(f"f {_LEAF}"),
    ),
)
#: Bytes of a call's data.
SIZES = range(88, 121, 8)
#: Calls of lcm(), each in the one before: as deep as the kernel's stack allows.
DEEP = 16


def _nested(*sizes: int) -> Iterator[str]:
    """The steps with two fprobes on a function that is called in itself, with so much data that the task's shadow stack fills."""
    yield f"say say nested-{'-'.join(map(str, sizes))}"
    yield from (do(f"f {i} {{lcm.entry}} {ENTRY | RETURN | size << _DATA_SHIFT:x}") for i, size in enumerate(sizes))
    yield ops("n", 0, "gcd")
    yield do(f"y 0 0 {DEEP - 1:x}")
    yield READING
    yield from (do("O 0"), do("F 0"), do("F 1"))


def _probed(label: str, flags: int, *calls: str) -> Iterator[str]:
    """The steps with an fprobe of these flags on a function, while calls of it are made."""
    yield from (f"say say {label}", do(f"f 0 {{int_sqrt.entry}} {flags:x}"), *calls, READING, do("F 0"))


_MISSED = Trial(
    "missed",
    "calls that an fprobe loses, and its nmissed",
    ("int_sqrt", "lcm", "gcd"),
    (
        *_probed("inside-handler", _CALLS, do("x 4")),
        *_probed("inside-handler-return", _CALLS | RETURN, do("x 4")),
        *(step for one in SIZES for other in SIZES if one <= other for step in _nested(one, other)),
    ),
)


def _traced(name: str, call: str) -> Iterator[str]:
    """The steps that read the stack trace of an event at a return, of this call."""
    part = event("f int_sqrt%return")
    yield f"say say trace-{name}"
    yield from (*part.on, f"write {TRACING}/options/stacktrace 1", f"empty {TRACING}/trace", do(call))
    yield f"find {TRACING}/trace =>"
    yield from (f"write {TRACING}/options/stacktrace 0", *part.off)


_SEGMENT = Trial(
    "old-segment",
    "whether the registers that an fprobe's handler at a return gets look complete to ftrace_get_regs() on x86-64",
    ("int_sqrt",),
    (
        *_probed("stack-00", ENTRY | _SEGMENTS, *plan.READ * (do("z 4 0 0"),)),
        *_probed("stack-ff", ENTRY | _SEGMENTS, *plan.READ * (do("z 4 0 ff"),)),
        *(step for byte in (0, 0xFF) for step in _traced(f"{byte:02x}", f"z 4 0 {byte:x}")),
        *_traced("untouched", "x 4"),
    ),
)
#: A kprobe behind the patch site of the leaf, whose handler takes a stack trace.
_TAKE = (do("s 0 {leaf.entry} {leaf.inside}"), "calls 1", READING, do("K 0"))
_STACKS = Trial(
    "graph-stack",
    "stack traces while the graph tracer has the return of a function on the stack",
    (_SLEPT,),
    (
        "say say untraced",
        *_TAKE,
        f"write {TRACING}/set_ftrace_filter {{body}}",
        f"write {TRACING}/current_tracer function_graph",
        "say say traced",
        *_TAKE,
        f"write {TRACING}/current_tracer nop",
        f"write {TRACING}/set_ftrace_filter !{{body}}",
        f"write {TRACING}/set_ftrace_filter {_SLEPT}",
        f"write {TRACING}/current_tracer function_graph",
        "sleeper 7d0",
        "sleep 64",
        "say say asleep",
        "stack",
    ),
)
_WINDOW = Trial(
    "return-window",
    "a stack trace from within what the graph tracer's return trampoline calls",
    ("int_sqrt",),
    (
        f"write {TRACING}/set_ftrace_filter {_LEAF}",
        f"write {TRACING}/current_tracer function_graph",
        do("s 0 {returned}"),
        "calls 1",
        "say say return",
        READING,
        do("K 0"),
    ),
)
#: Three fprobes on each of two functions: all want the first one's return; one wants the second one's, and two decline.
_WANTING = ("int_sqrt", *3 * (_PLACES,)), ("lcm", _PLACES, *2 * (_PLACES | _DECLINES,))
_LIST = Trial(
    "list-not-ended",
    "whether a call of a function that two of three fprobes decline runs handlers of another function's fprobes",
    ("int_sqrt", "lcm"),
    (
        "say say on-both",
        *(
            do(f"f {3 * first + n} {{{name}.entry}} {flags:x}")
            for first, (name, *flags_of) in enumerate(_WANTING)
            for n, flags in enumerate(flags_of)
        ),
        READING,
        "say say one-called",
        do("x 4"),
        READING,
        "say say other-called",
        do("y 0"),
        READING,
        *(do(f"F {n}") for n in range(6)),
    ),
)
_INSTANCE = f"{TRACING}/instances/tramplab"


def _left_by(label: str, flags: int, *second: str) -> Iterator[str]:
    """The steps with an ops of these flags when another user of its function has come and gone."""
    yield from (ops("o", 0, "leaf", flags), *second, f"say say {label}", _COUNT, _FLAGGED, do("O 0"))


_PLAIN_GONE = (ops("o", 1, "leaf"), do("O 1"))
_FUNCTION, _GRAPH, _SECOND = traced("function", 1), traced("function_graph", 2), traced("function_graph", 2, _INSTANCE)
_LEAVES = Trial(
    "second-leaves",
    "what stays when a second user has come and gone: an ops with the RCU flag, a guarded one, the graph tracer's cost",
    (),
    (
        "say say none",
        _COUNT,
        *_left_by("rcu", FL_RCU),
        *_left_by("rcu-left", FL_RCU, *_PLAIN_GONE),
        *_left_by("tracer-left", FL_RECURSION, *_on_leaf(_FUNCTION.on + _FUNCTION.off)),
        *_on_leaf(_GRAPH.on),
        "say say graph",
        _COUNT,
        "say say graph-both",
        f"mkdir {_INSTANCE}",
        *_on_leaf(_SECOND.on),
        _COUNT,
        "say say graph-left",
        f"write {_INSTANCE}/current_tracer nop",
        _COUNT,
        f"write {TRACING}/current_tracer nop",
    ),
)
#: How many functions a link of kprobe_multi is put on, of those whose names follow the prefix of system calls.
MANY = (1, 5, 15)
_CALLED = (
    *("sethostname", "setdomainname", "reboot", "personality", "sysinfo", "umask", "times", "getrusage", "setpriority"),
    *("getpriority", "setpgid", "symlinkat", "linkat", "mknodat", "fchownat"),
)


def _waiting(functions: int) -> Iterator[str]:
    """The steps that count how often the kernel waits for its CPUs while a link is put on so many functions."""
    (load, link), off = multi(False).on, multi(False).off
    yield from (load, do("k 0 {waits.entry} {waits.inside}"), f"say say on-{functions}")
    yield link.replace("{name}", " ".join(f"{{prefix}}{name}" for name in _CALLED[:functions]))
    yield from (READING, *off, do("K 0"))


_MANY = Trial(
    "many-functions",
    "how often the kernel waits for its CPUs while a BPF program is put on several functions at once",
    (),
    tuple(step for functions in MANY for step in _waiting(functions)),
)
#: By name.
TRIALS: dict[str, Trial] = {t.name: t for t in (_GUARD, _USER, _MISSED, _SEGMENT, _STACKS, _WINDOW, _LIST, _LEAVES, _MANY)}


def get(name: str) -> Trial:
    """A trial by name; raises TramplabError with near matches."""
    return of_name("trial", name, TRIALS)
