"""The probes of a booted kernel: what is attached to the function, by which steps of init/init.c, and how each says that it was
called.

In steps {site}, {entry} and {inside} are the function's patch site, its first byte, and the offset of an instruction behind the
site; {name} and {id} its name and the number of its type; {elsewhere0} to {elsewhere9} the patch sites of functions that the
system call does not reach; {prefix} what the ISA's system calls begin with.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from ..base.arguments import of_name
from ..ftrace.ops import FL_RCU, FL_RECURSION, FL_SAVE_REGS
from ..lab.hooks import several

TRACING = "/sys/kernel/tracing"
COMMAND = "/sys/module/tramplab/parameters/command"
BPF_TRACING, _BPF_KPROBE = 26, 2  # include/uapi/linux/bpf.h: program types
ATTACH = {"fentry": 24, "fexit": 25, "fmod_ret": 26, "fsession": 58, "multi": 42, "session": 56}
PERF_TRACEPOINT = 2
_KPROBE_PMU = "/sys/bus/event_source/devices/kprobe/type"
NUMBER_ELSEWHERE = 10
#: Which handlers an fprobe has, see ko/fprobes.h.
RETURN, ENTRY = 1, 8


def code(*instructions: tuple[int, int, int, int]) -> str:
    """A BPF program in hexadecimal: of each instruction the opcode, its two registers, its offset, and its number."""
    return b"".join(struct.pack("<BBhi", *one) for one in instructions).hex()


#: r1 = where the number is.
NUMBER = ((0x18, 0x21, 0, 0), (0, 0, 0, 0))
#: r0 = 0; exit
END = ((0xB7, 0, 0, 0), (0x95, 0, 0, 0))
#: r2 = *r1; r2 += 1; *r1 = r2
COUNTING = code(*NUMBER, (0x79, 0x12, 0, 0), (0x07, 2, 0, 1), (0x7B, 0x21, 0, 0), *END)
#: Bodies of system calls that no step makes; a small kernel lacks some of the first ten.
ELSEWHERE = (
    *("sethostname", "setdomainname", "swapon", "swapoff", "reboot", "quotactl", "acct", "syslog", "personality", "sysinfo"),
    *("umask", "times", "getrusage", "setpriority", "getpriority", "setpgid", "setsid", "sched_setparam", "sched_rr_get_interval"),
    *("symlinkat", "linkat", "mknodat", "fchownat", "fallocate"),
)


@dataclass(frozen=True)
class Part:
    """What is attached, and taken away again.

    on, off: steps. hits: what counts its calls: "module", "programs" (of BPF), "event" (of perf), or a folder of tracefs whose
    buffer gets records. each: how many are counted in a call. handlers: the handlers of ours that a call goes through: of the
    module, or "program".
    """

    on: tuple[str, ...]
    off: tuple[str, ...]
    hits: str
    each: int = 1
    handlers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Probe:
    """One measurement: these parts on the function at once. on: which system call's function, "getpid" or "prctl"."""

    name: str
    says: str
    parts: tuple[Part, ...]
    on: str = "getpid"


def _module(on: str, off: str, handlers: tuple[str, ...], each: int | None = None) -> Part:
    each = len(handlers) if each is None else each
    return Part((f"write {COMMAND} {on}",), (f"write {COMMAND} {off}",), "module", each, handlers)


def _ops(index: int = 0, flags: int = 0) -> Part:
    return _module(f"o {index:x} {{site}} {flags:x}", f"O {index:x}", ("callback",))


def _elsewhere(index: int) -> Part:
    return _module(f"o {index + 1:x} {{elsewhere{index}}} 0", f"O {index + 1:x}", ())


def _direct(index: int = 0) -> Part:
    return _module(f"d {index:x} {{site}}", f"D {index:x}", ("trampoline",))


def _fprobe(index: int = 0, flags: int = ENTRY) -> Part:
    handlers = (name for flag, name in ((ENTRY, "fprobe_entry"), (RETURN, "fprobe_exit")) if flags & flag)
    return _module(f"f {index:x} {{entry}} {flags:x}", f"F {index:x}", tuple(handlers))


def _kprobe(index: int = 0, offset: str = "0") -> Part:
    return _module(f"k {index:x} {{entry}} {offset}", f"K {index:x}", ("kprobe_handler",))


def _kretprobe(index: int = 0) -> Part:
    return _module(f"r {index:x} {{entry}}", f"R {index:x}", ("kretprobe_handler",))


def traced(tracer: str, each: int, folder: str = TRACING) -> Part:
    """A tracer in a folder of tracefs."""
    on = (f"write {folder}/set_ftrace_filter {{name}}", f"write {folder}/current_tracer {tracer}")
    return Part(on, (f"write {folder}/current_tracer nop", f"write {folder}/set_ftrace_filter !{{name}}"), folder, each)


def _instance(name: str) -> Part:
    folder = f"{TRACING}/instances/{name}"
    of = traced("function", 1, folder)
    return Part((f"mkdir {folder}", *of.on), (*of.off, f"rmdir {folder}"), folder)


def _thresholded() -> Part:
    """The graph tracer with a threshold that no call reaches."""
    of = traced("function_graph", 0)
    return Part((f"write {TRACING}/tracing_thresh 1000000", *of.on), (*of.off, f"write {TRACING}/tracing_thresh 0"), TRACING, 0)


def event(definition: str, index: int = 0) -> Part:
    """An event of tracefs; its name follows the letter."""
    kind, _, what = definition.partition(" ")
    name = f"tramplab/event{index}"
    on = (f"write {TRACING}/dynamic_events {kind}:{name} {what}", f"write {TRACING}/events/{name}/enable 1")
    return Part(on, (f"write {TRACING}/events/{name}/enable 0", f"write {TRACING}/dynamic_events -:{name}"), TRACING)


def _bpf(kind: str, each: int = 1) -> Part:
    """A BPF program of one of the tracing kinds."""
    on = (f"program {BPF_TRACING:x} {ATTACH[kind]:x} {{id}} {COUNTING}", "trace")
    return Part(on, ("close",), "programs", each, each * ("program",))


def _perf(at_return: bool) -> Part:
    """A BPF program on perf's event of a kprobe."""
    on = (f"program {_BPF_KPROBE:x} 0 0 {COUNTING}", f"perf {_KPROBE_PMU} {int(at_return)} {{name}} 0 0", "enable")
    return Part(on, ("close",), "programs", 1, ("program",))


def multi(at_return: bool, code: str = COUNTING) -> Part:
    """A BPF program on kprobe_multi."""
    on = (f"program {_BPF_KPROBE:x} {ATTACH['multi']:x} 0 {code}", f"multi {ATTACH['multi']:x} {int(at_return)} {{name}}")
    return Part(on, ("close",), "programs", 1, ("program",))


_SESSION = Part(
    (f"program {_BPF_KPROBE:x} {ATTACH['session']:x} 0 {COUNTING}", f"multi {ATTACH['session']:x} 0 {{name}}"),
    ("close",),
    "programs",
    2,
    ("program", "program"),
)
#: perf's event of all functions, of which a filter leaves one.
PERF_FUNCTION = Part(
    (f"perf {PERF_TRACEPOINT} {TRACING}/events/ftrace/function/id - 0 0", "filter ip == {name}", "enable"), ("close",), "event"
)
_TRIGGER = Part(
    (f"write {TRACING}/set_ftrace_filter {{name}}:traceon",), (f"write {TRACING}/set_ftrace_filter !{{name}}:traceon",), TRACING, 0
)
_PROFILE = Part(
    (f"write {TRACING}/set_ftrace_filter {{name}}", f"write {TRACING}/function_profile_enabled 1"),
    (f"write {TRACING}/function_profile_enabled 0", f"write {TRACING}/set_ftrace_filter !{{name}}"),
    TRACING,
    0,
)
_STACK = Part(
    (f"write {TRACING}/stack_trace_filter {{name}}", "write /proc/sys/kernel/stack_tracer_enabled 1"),
    ("write /proc/sys/kernel/stack_tracer_enabled 0", f"write {TRACING}/stack_trace_filter !{{name}}"),
    TRACING,
    0,
)
OPTIMISE = "/proc/sys/debug/kprobes-optimization"
_UNTIL_OPTIMISED = "sleep 7d0"


def _inside() -> Part:
    """A kprobe behind the site that stays a breakpoint."""
    of = _kprobe(offset="{inside}")
    return Part((f"try write {OPTIMISE} 0", *of.on), (*of.off, f"try write {OPTIMISE} 1"), of.hits, of.each, of.handlers)


def _optimised() -> Part:
    """The jump is written some time after the probe is registered."""
    of = _kprobe(offset="{inside}")
    return Part((f"write {OPTIMISE} 1", *of.on, _UNTIL_OPTIMISED), of.off, of.hits, of.each, of.handlers)


def _event_inside() -> Part:
    """An event behind the site, which becomes a jump where the kernel can make it one."""
    of = event("p {name}+0x{inside}")
    return Part((*of.on, _UNTIL_OPTIMISED), of.off, of.hits)


def _repeated(name: str, says: str, parts: Sequence[Part], of: int) -> Probe:
    return Probe(several(name, of), f"{of} of: {says}", tuple(parts[:of]))


#: One on its own: what it is, and the part.
_ONE = {
    "ops": ("a module's ops", _ops()),
    "ops-assist": ("a module's ops that asks for the recursion guard", _ops(flags=FL_RECURSION)),
    "ops-rcu": ("a module's ops that asks for RCU to be watching", _ops(flags=FL_RCU)),
    "ops-regs": ("a module's ops that wants all registers", _ops(flags=FL_SAVE_REGS)),
    "direct": ("a module's direct call", _direct()),
    "bpf-fentry": ("a BPF fentry program", _bpf("fentry")),
    "bpf-fexit": ("a BPF fexit program", _bpf("fexit")),
    "bpf-fsession": ("a BPF fsession program", _bpf("fsession", 2)),
    "fprobe": ("a module's fprobe with a handler at the entry", _fprobe()),
    "fprobe-exit": ("a module's fprobe with a handler at the return", _fprobe(flags=RETURN)),
    "fprobe-both": ("a module's fprobe with handlers at entry and return", _fprobe(flags=ENTRY | RETURN)),
    "kprobe-multi": ("a BPF program on kprobe.multi", multi(False)),
    "kretprobe-multi": ("a BPF program on kretprobe.multi", multi(True)),
    "kprobe-session": ("a BPF program on kprobe.session", _SESSION),
    "kprobe": ("a module's kprobe at the entry", _kprobe()),
    "kprobe-inside": ("a module's kprobe behind the patch site, as a breakpoint", _inside()),
    "kprobe-inside-optimised": ("the same as a jump", _optimised()),
    "kprobe-bpf": ("a BPF program on perf's kprobe", _perf(False)),
    "kretprobe": ("a module's kretprobe", _kretprobe()),
    "kretprobe-bpf": ("a BPF program on perf's kretprobe", _perf(True)),
    "function": ("the function tracer", traced("function", 1)),
    "instance": ("the function tracer of an instance", _instance("tramplab")),
    "trigger": ("a traceon trigger of set_ftrace_filter", _TRIGGER),
    "stack": ("the stack tracer", _STACK),
    "profile": ("the function profiler", _PROFILE),
    "perf-function": ("perf's event ftrace:function", PERF_FUNCTION),
    "graph": ("the function graph tracer", traced("function_graph", 2)),
    "graph-threshold": ("the same with a threshold that no call reaches", _thresholded()),
    "kprobe-event": ("a kprobe event of tracefs", event("p {name}")),
    "kprobe-event-inside": ("a kprobe event behind the patch site", _event_inside()),
    "kretprobe-event": ("a kretprobe event of tracefs", event("r {name}")),
    "fprobe-event": ("an fprobe event of tracefs", event("f {name}")),
    "fprobe-event-exit": ("an fprobe event at the return", event("f {name}%return")),
}
#: Two and ten of a kind.
_SEVERAL = {
    "ops": ("a module's ops", [_ops(i) for i in range(10)]),
    "fprobe": ("a module's fprobe at the entry", [_fprobe(i) for i in range(10)]),
    "fprobe-exit": ("a module's fprobe at the return", [_fprobe(i, RETURN) for i in range(10)]),
    "kprobe": ("a module's kprobe at the entry", [_kprobe(i) for i in range(10)]),
    "kretprobe": ("a module's kretprobe", [_kretprobe(i) for i in range(10)]),
    "bpf-fentry": ("a BPF fentry program", 10 * [_bpf("fentry")]),
    "bpf-fexit": ("a BPF fexit program", 10 * [_bpf("fexit")]),
    "kprobe-multi": ("a BPF program on kprobe.multi", 10 * [multi(False)]),
    "kretprobe-multi": ("a BPF program on kretprobe.multi", 10 * [multi(True)]),
}
#: Different ones at once.
_MIXED = {
    "function+instance": (traced("function", 1), _instance("tramplab")),
    "ops+function": (_ops(), traced("function", 1)),
    "ops+10-elsewhere": (_ops(), *(_elsewhere(i) for i in range(NUMBER_ELSEWHERE))),
    "ops:2+10-elsewhere": (_ops(), _ops(11), *(_elsewhere(i) for i in range(NUMBER_ELSEWHERE))),
    "direct+ops": (_ops(1), _direct()),
    "direct+10-elsewhere": (_direct(), *(_elsewhere(i) for i in range(NUMBER_ELSEWHERE))),
    "bpf-fentry+ops": (_ops(), _bpf("fentry")),
    "bpf-fexit+ops": (_ops(), _bpf("fexit")),
    "bpf-fentry+kprobe": (_kprobe(), _bpf("fentry")),
    "fprobe+ops": (_ops(), _fprobe()),
    "fprobe-exit+graph": (traced("function_graph", 2), _fprobe(flags=RETURN)),
    "kprobe+ops": (_ops(), _kprobe()),
    "kretprobe+fprobe-exit": (_kretprobe(), _fprobe(flags=RETURN)),
    "kretprobe+graph": (traced("function_graph", 2), _kretprobe()),
    "kprobe-multi+ops": (_ops(), multi(False)),
}


def _probes() -> list[Probe]:
    probes = [Probe(name, says, (part,)) for name, (says, part) in _ONE.items()]
    probes.append(Probe("bpf-fmodret", "a BPF fmod_ret program on a security hook", (_bpf("fmod_ret"),), "prctl"))
    probes += [_repeated(name, says, parts, of) for name, (says, parts) in _SEVERAL.items() for of in (2, 10)]
    return [*probes, *(Probe(name, name.replace("+", " and "), parts) for name, parts in _MIXED.items())]


#: By name, in the order in which they are measured.
PROBES: dict[str, Probe] = {p.name: p for p in _probes()}


def get(name: str) -> Probe:
    """A probe by name; raises TramplabError with near matches."""
    return of_name("probe", name, PROBES, {})
