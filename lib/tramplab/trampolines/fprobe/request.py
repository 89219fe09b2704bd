"""The request for an fprobe: handlers at the entry of functions, and at their return."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import TramplabError, unknown
from ...ftrace.ops import Request

#: The save sets that an fprobe's ops can ask for.
SAVES = ("args", "regs")


@dataclass(frozen=True, eq=False)
class Fprobe(Request):
    """An fprobe: up to two handlers.

    entry, exit: whether it has a handler there.
    declines: the handler at the entry says that the return is of no interest, each time.
    save: "args" or "regs"; by default what fprobes ask for where they have return hooks: all registers, if the ISA has a trampoline
        that saves them.
    nodes: how many calls can be followed at a time, by default as many as in kernels: two for each CPU and function.
    dynamic: its ops is not in the core kernel's data, as a module's or BPF's are.
    bpf: the handlers run BPF programs, one at the entry and one at the return, as was proposed for arm64 and no kernel does; one
        that declines has none at the return.
    unwanted: it declines, and the return is hooked all the same, as it was before entry handlers could decline.
    observe: handlers, or programs, that write down what they see instead of counting.
    link: handlers that run a program as a link of kprobe_multi's does, and how they make what it reads (guest/core/ways.c), such as
        "cpu_plain".
    shim: handlers that call those which a Kretprobe with the same entry, declines and observe has, and how much of the pt_regs they
        fill that those take (guest/consumers/shims.c): "value", "where" or "all".
    data: bytes of its own that each call has, for the handler at the entry to leave something for the other.
    watch: handlers of guest/consumers/returns.c, which do what they are told.
    multi: it is BPF's link of kprobe_multi, whose handlers run a program with a pt_regs; with both handlers it is a session.
    """

    entry: bool = True
    exit: bool = False
    declines: bool = False
    save: str = ""
    nodes: int | None = None
    dynamic: bool = True
    bpf: bool = False
    unwanted: bool = False
    observe: bool = False
    link: str = ""
    shim: str = ""
    data: int = 0
    watch: bool = False
    multi: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.entry or self.exit):
            raise TramplabError("an fprobe without a handler does nothing: give it entry=True or exit=True.")
        if self.declines and not (self.entry and self.exit):
            raise TramplabError("declines= is for an fprobe with both handlers: the one at the entry speaks for the other.")
        if self.save and self.save not in SAVES:
            raise unknown("save set", self.save, SAVES)
        if self.nodes is not None and self.nodes < 1:
            raise TramplabError(f"a pool of {self.nodes} nodes follows no call; give nodes= 1 or more.")
        if self.unwanted and (not (self.bpf and self.entry and self.exit) or self.declines):
            raise TramplabError("unwanted= is for BPF at the entry, with the return hooked: give it bpf=True and exit=True.")
        if self.bpf and self.filter and len(self.filter) != 1:
            raise TramplabError(f"BPF programs are for one function; {len(self.filter)} were named.")
        if self.link and (self.bpf or self.observe or self.declines):
            raise TramplabError("link= brings its own handlers: leave bpf=, observe= and declines= out.")
        if self.shim and (self.bpf or self.link):
            raise TramplabError("shim= runs a kretprobe's handlers, and no program: leave bpf= and link= out.")
        if self.shim and self.observe and self.declines:
            raise TramplabError("a kretprobe whose entry handler declines sees no return: leave observe= or declines= out.")
        if self.shim and self.filter and len(self.filter) != 1:
            raise TramplabError(f"a shim stands for one kretprobe, which is on one function; {len(self.filter)} were named.")
        if self.nodes is not None and not self.exit:
            raise TramplabError("nodes= is for an fprobe that sees functions return: give it exit=True.")
        if self.data < 0:
            raise TramplabError(f"a call cannot have {self.data} bytes of its own; give data= 0 or more.")
        if self.data and not self.exit:
            raise TramplabError("data= is for an fprobe that sees functions return: give it exit=True.")
        if self.data and self.bpf:
            raise TramplabError("BPF programs at both ends have data of their own: leave data= out.")
        if self.watch and (self.bpf or self.observe or self.declines or self.link or self.shim):
            raise TramplabError("watch= brings its own handlers: leave bpf=, observe=, declines=, link= and shim= out.")
        if self.multi and (self.bpf or self.declines or self.link or self.shim or self.watch or self.data):
            others = "bpf=, declines=, link=, shim=, watch= and data="
            raise TramplabError(f"a link of kprobe_multi has handlers of its own: leave {others} out.")
