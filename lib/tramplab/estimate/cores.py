"""The cores an estimate can be made for: data/cores/*.yml, every parameter with its range and source.

>>> core = get("cortex-a72")
>>> core.isa, core.in_order, core["load"].value
('arm64', False, 4)
"""

from __future__ import annotations

import functools
import re
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import replace

from ..base import documents
from ..base.arguments import of_name
from ..base.entries import Entry, IsaName, Natural, Text, Unsaid, checked
from ..base.errors import TramplabError, unknown
from ..base.paths import data_file

#: Parameter -> its meaning; in cycles by default.
MEANINGS = {
    "width": "slots per cycle: what the front end delivers (a slot is an instruction, but for the slots_ parameters)",
    "fetch": "slots per cycle that get into the queue before them, up to a taken branch",
    "window": "instructions between the oldest unfinished one and the youngest (the reorder buffer)",
    "store_buffer": "stores between the oldest that is not in the cache yet and the youngest",
    "stores_per_cycle": "stores per cycle that go from the store buffer to the cache",
    "load": "from the address to the loaded value, in the first-level cache",
    "late_stage": "cycles later at which an ALU or branch gets a second chance to run if its operands were not there",
    "loads_wait": "1 if a load waits until the addresses of all older stores are known",
    "locks_wait": "1 if a load waits until all older locked instructions are done",
    "forward": "from a store's data to the value of a load of bytes that it wrote",
    "forward_renamed": "the same where the load is of exactly the store's bytes and the core links the two by renaming",
    "forward_failed": "the same where a load needs bytes of more than one store, or of a store and of memory",
    "multiply": "latency of a multiplication",
    "divide": "latency of a division",
    "atomic": "latency of an atomic read-modify-write, or of one half of a pair of exclusives",
    "barrier": "from the last older instruction to the first younger one",
    "exception": "from the last older instruction to the first behind a breakpoint that is taken, and likewise where it is left",
    "read": "latency of reading a system register",
    "taken_bubble": "cycles without slots behind a direct branch that is taken and predicted",
    "call_bubble": "the same behind a call, a return or an indirect branch",
    "mispredict": "from the resolution of a mispredicted return to the first slot of the right path",
    "return_stack": "entries of the return stack",
    "return_stack_checked": "1 if an empty return stack is noticed, 0 if it goes round to what it held before",
    "moves_free": "1 if copies of registers are made by renaming, without a unit and without latency",
    "slots_call": "slots of a call",
    "slots_return": "slots of a return",
    "slots_update": "slots of an instruction that reads, changes and writes memory",
    "push_flags": "cycles for which PUSHF keeps the front end",
    "pop_flags": "cycles for which POPF keeps the front end",
    "stack_sync": "slots for using rsp by name after pushes, pops, calls or returns",
    "fused_compare": "1 if a compare and the conditional jump behind it take one slot",
    "slots_pair": "slots of a load or store of two registers",
    "pair_load": "cycles for which a load of two registers keeps its port",
    "pair_store": "cycles for which a store of two registers keeps its port",
    "slots_writeback": "further slots of an access that also moves its base register (of x86-64: LEAVE)",
}
_ALL = set(
    "width load forward forward_failed multiply divide atomic barrier exception read taken_bubble call_bubble mispredict"
    " return_stack return_stack_checked slots_call slots_return".split()
)
_IN_ORDER = {"late_stage"}
_OUT_OF_ORDER = {"fetch", "window", "store_buffer", "stores_per_cycle", "moves_free", "loads_wait"}
_OF_ISA = {
    "x86_64": {"slots_update", "slots_writeback", "push_flags", "pop_flags", "stack_sync", "fused_compare", "locks_wait"},
    "arm64": {"slots_pair", "pair_load", "pair_store", "slots_writeback"},
    "riscv64": set(),
}
_OPTIONAL = {"forward_renamed"}
#: The operations that every core has ports for.
_USED = {"alu", "multiply", "divide", "branch", "load", "store"}


Texts = Annotated[tuple[str, ...], Meta(min_length=1)]


class Parameter(Entry, frozen=True):
    """One number about a core: the value, the range it may have, how it is known, and from which of the core's sources.

    An assumption without a source has a note that gives the reason.
    """

    value: Natural
    low: Natural
    high: Natural
    kind: Literal["manual", "compiler model", "measured", "assumption"]
    sources: tuple[str, ...]
    note: str = ""
    name: Unsaid = ""

    @property
    def uncertain(self) -> bool:
        """Is there a range around the value?"""
        return self.low != self.high


class Source(Entry, frozen=True):
    """The source of a number."""

    text: Text
    url: str = ""


class Core(Entry, frozen=True, eq=False, kw_only=True):
    """A core with the parameters of its model.

    clock_ghz: of the usual board or part.
    mca: its name in llvm-mca, None if llvm-mca does not know it.
    cpus: pattern of the model names that native.host.cpu_model() gives for such CPUs.
    vendor: pattern of what native.host.vendor() gives.
    judged_by: measured set -> its cases that set parameters, which do not judge.
    ports: by name.
    uses: operation -> the ports that can do it; store_data only where a store needs a second port for its data.
    """

    name: Unsaid = ""
    title: Text
    isa: IsaName
    in_order: bool
    clock_ghz: Annotated[float, Meta(gt=0, le=10, description="a clock is more than 0 GHz and at most 10")]
    mca: str | None
    cpus: Text
    vendor: Text
    judged_by: dict[str, tuple[str, ...]]
    ports: Texts
    uses: dict[Literal["alu", "multiply", "divide", "branch", "load", "store", "store_data"], Texts]
    ports_source: tuple[str, ...]
    sources: dict[str, Source]
    parameters: dict[str, Parameter]

    def __getitem__(self, name: str) -> Parameter:
        return self.parameters[name]

    @property
    def values(self) -> dict[str, int]:
        """Every parameter's value."""
        return {name: p.value for name, p in self.parameters.items()}


@functools.cache
def tried() -> tuple[dict[str, Core], dict[str, TramplabError]]:
    """The cores whose files are valid, by name; and by name the errors of the other files."""
    good, bad = {}, {}
    for name in (path.stem for path in sorted((data_file("releases.yml").parent / "cores").glob("*.yml"))):
        try:
            good[name] = _read(name, documents.read(f"cores/{name}.yml"))
        except TramplabError as e:
            bad[name] = e
    return good, bad


def cores() -> dict[str, Core]:
    """Every core there is a file for, by name; raises TramplabError for a file that is not valid."""
    good, bad = tried()
    for error in bad.values():
        raise error
    return dict(good)


def get(name: str, isa: str | None = None) -> Core:
    """A core by name; raises TramplabError with near matches, if its file is not valid, or if it is of another ISA."""
    good, bad = tried()
    if isinstance(name, str) and name in bad:
        raise bad[name]
    core = of_name("core", name, good)
    if isa not in (None, core.isa):
        fitting = ", ".join(c.name for c in good.values() if c.isa == isa)
        raise TramplabError(f"{name} is a core for {core.isa}, not {isa}; choose one of {fitting}.")
    return core


def of_cpu(model: str) -> Core | None:
    """The core of a CPU, by what /proc/cpuinfo says of it (see native.host.cpu_model); None for one that is not modelled.

    Raises TramplabError where none fits and a file is not valid, which might be that of the CPU.

    >>> of_cpu("AMD EPYC 7763 64-Core Processor, family 25, model 1, stepping 1").name
    'zen3'
    """
    for core in tried()[0].values():
        if re.search(core.cpus, model):
            return core
    cores()  # raises for a file that is not valid
    return None


def _read(name: str, found: Any) -> Core:
    """The core of a file; raises TramplabError unless it has its parameters, and all sources and ports are known and used."""
    file = f"cores/{name}.yml"
    core = checked(file, found, Core)
    wanted = _ALL | _OF_ISA[core.isa] | (_IN_ORDER if core.in_order else _OUT_OF_ORDER)
    if strange := sorted(set(core.parameters) - wanted - _OPTIONAL):
        raise TramplabError(f"{file}: {unknown('parameter', strange[0], sorted(wanted))}")
    for what, missing in (("parameters", wanted - set(core.parameters)), ("uses", _USED - set(core.uses))):
        if missing:
            raise TramplabError(f"{file}: {what} has no {' and no '.join(sorted(missing))}.")
    for of, p in core.parameters.items():
        if not p.low <= p.value <= p.high:
            raise TramplabError(f"{file}: {of} needs low <= value <= high.")
        if not p.sources and not (p.kind == "assumption" and p.note):
            raise TramplabError(f"{file}: {of} needs a source, or as an assumption a note that gives the reason.")
    used = [*core.ports_source, *(s for p in core.parameters.values() for s in p.sources)]
    for source in used:
        if source not in core.sources:
            raise TramplabError(f"{file}: {unknown('source', source, core.sources)}")
    if idle := [source for source in core.sources if source not in used]:
        raise TramplabError(f"{file}: nothing rests on the source {idle[0]}; name it where it is one, or take it out.")
    for what, pattern in (("cpus", core.cpus), ("vendor", core.vendor)):
        try:
            re.compile(pattern)
        except re.error as e:
            raise TramplabError(f"{file}: {what} is no pattern: {e}.") from None
    named = {p for group in core.uses.values() for p in group}
    if named != set(core.ports):
        raise TramplabError(f"{file}: {', '.join(sorted(named ^ set(core.ports)))} must be one of the ports, and be used.")
    return replace(core, name=name, parameters={n: replace(p, name=n) for n, p in core.parameters.items()})
