"""Making fprobes that share the function graph tracer, or, where they see no return and the release has it, an ops; and a tracer
that has it for itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...base.errors import TramplabError, unknown
from ...ftrace.layout import fields, private_of
from ...ftrace.ops import FL_ENABLED, Registered, Request
from ...ftrace.steps import Free, Step, block, word
from ..arguments import WORD
from ..guest import Guest
from ..plain import copied
from . import multi, shims
from .fgraph import Fgraph
from .handlers import handlers, links
from .request import Fprobe
from .tables import Listed, Tables


class Shared(Request):
    """Asks for an ops that fprobes share."""


@dataclass(frozen=True, eq=False)
class EntryOps(Shared):
    """Asks for the ops of all fprobes that see no return."""


@dataclass(frozen=True, eq=False)
class GraphOps(Shared):
    """Asks for the ops of the function graph tracer, with the one tracer that all other fprobes share."""


#: MAX_FPROBE_DATA_SIZE (include/linux/fprobe.h): the 15 words that a header's four bits can tell; fprobe_init() rounds up to words
#: and says -E2BIG above it.
MOST_DATA = 15 * WORD
#: Request for a shared ops -> the function that this ops calls.
_CALLED: dict[type[Request], str] = {EntryOps: "fprobe_ftrace_entry", GraphOps: "ftrace_graph_func", Fgraph: "ftrace_graph_func"}
#: The guest's tracers.
_TRACERS: dict[type[Request], str] = {GraphOps: "fprobe_graph_ops", Fgraph: "lab_graph_ops"}
#: The guest's tracer that watches, and the one that declines.
_WATCHER, _DECLINER = "lab_graph_watch_ops", "lab_graph_decline_ops"


class GraphFprobes:
    """The maker of these fprobes, and of the ops that they share, which are the core kernel's own and so not dynamic."""

    def __init__(self, guest: Guest) -> None:
        self._guest, self._image = guest, guest.image
        self._listed: dict[int, Listed] = {}  # by the fprobe's index
        self._tracing: dict[int, type[Request]] = {}  # by the index of the tracer's ops

    @cached_property
    def _tables(self) -> Tables:
        return Tables(self._image, self._guest.heap, bool(self._guest.features["fprobe_entry_ops"]))

    def serves(self, request: Request) -> bool:
        """Is it an fprobe, an ops that fprobes share, or a tracer that shares with nobody?"""
        return isinstance(request, Fprobe | Shared | Fgraph)

    def check(self, request: Request, functions: tuple[str, ...]) -> None:
        """Raise TramplabError for what only fprobes on return hooks have."""
        features = self._guest.features
        if self._tracing and (isinstance(request, Fgraph) or (self._in_graph(request) and Fgraph in self._tracing.values())):
            raise TramplabError("the lab's function graph tracer has one tracer at a time: detach the other one first.")
        if not isinstance(request, Fprobe):
            return
        hint = "rethook='freelist', 'objpool' or 'shadow' builds one on return hooks"
        if request.bpf or request.unwanted:
            raise TramplabError(f"no BPF program runs on {features}'s fprobes as was proposed for arm64; {hint}.")
        if request.nodes is not None:
            raise TramplabError(f"{features}'s fprobes have no pool: each task has a shadow stack, so leave nodes= out, or {hint}.")
        if request.data > MOST_DATA:
            raise TramplabError(
                f"{features}'s fprobes have {MOST_DATA} bytes of data per call at most, not {request.data}: give a smaller data=."
            )
        if request.link and request.link not in links(self._image):
            raise unknown("link", request.link, links(self._image))
        multi.check(self._guest, request)
        shims.check(self._image, request, functions)
        if request.save == "regs":
            raise TramplabError(f"{features}'s fprobes are given what ftrace_caller saves, not all registers; {hint}.")

    def make(self, request: Request, functions: tuple[str, ...]) -> Registered:
        """The registration: of an fprobe that shares an ops, or of that ops."""
        if not isinstance(request, Fprobe):
            return Registered(request, self._image.address(_CALLED[type(request)]), FL_ENABLED, functions)
        shared = GraphOps() if self._in_graph(request) else EntryOps()
        return Registered(request, self._image.address(_CALLED[type(shared)]), FL_ENABLED, functions, shares=shared)

    def create(self, ops: Registered) -> list[Step]:
        """The steps that make the struct fprobe and its places in the tables; or the shared ops' trampoline, and the tracer it
        calls."""
        if isinstance(ops.request, Fprobe):
            return self._probe(ops, ops.request)
        steps = self._tracer(ops) if type(ops.request) in _TRACERS else []
        if self._guest.features["per_ops_trampoline"]:
            steps += copied.create(self._image, self._guest.modules, ops)
        if type(ops.request) in _TRACERS:
            self._tracing[ops.index] = type(ops.request)
        return steps

    def enter(self, member: Registered) -> list[Step]:
        """The steps after which a call finds the fprobe."""
        return self._tables.add(self._listed[member.index])

    def leave(self, member: Registered) -> list[Step]:
        """The steps after which nobody finds the fprobe any more."""
        return self._tables.remove(member.address)

    def free(self, ops: Registered) -> list[Step]:
        """The steps that free all of an ops' memory."""
        self._listed.pop(ops.index, None)
        self._tracing.pop(ops.index, None)
        steps: list[Step] = [Free(self._guest.heap, at, name) for at, name in ops.structs.items()]
        return steps + [Free(self._guest.modules, made.address, "the shared ops' trampoline") for made in ops.generated]

    # inside

    def _in_graph(self, request: Request) -> bool:
        """Is it an fprobe that the graph tracer calls?"""
        return isinstance(request, Fprobe) and (request.exit or not self._guest.features["fprobe_entry_ops"])

    def _probe(self, ops: Registered, request: Fprobe) -> list[Step]:
        image, heap = self._image, self._guest.heap
        listed, each = image.struct("fprobe_hlist"), image.struct("fprobe_hlist_node")
        taken: dict[int, str] = {}

        def take(size: int, what: str) -> int:
            taken[at := heap.take(size)] = f"fprobe[{ops.index}]" + (f"'s {what}" if what else "")
            return at

        linked = bool(request.multi or request.link)
        outer, probe = multi.take_link(self._guest, take) if linked else (0, take(image.struct("fprobe").size, ""))
        try:
            shim = take(image.struct(shims.STRUCT).size, "shim") if request.shim else 0
            hlist = take(listed.size + each.size * len(ops.functions), "places in the tables")
            ips = [self._guest.sites[f].ip for f in ops.functions]
            nodes = tuple((hlist + listed.fields["nodes"].offset + each.size * n, ip) for n, ip in enumerate(ips))
            called = multi.handlers(self._guest, request) if linked else handlers(request)
            private = private_of(image, ops.index)
            values = {name: image.address(handler) for name, handler in called.items()}
            data = multi.COOKIE if multi.session(request) else -(-request.data // WORD) * WORD
            values |= {"hlist_array": hlist, "private": private, "entry_data_size": data}
            runs = multi.link(self._guest, take, request, outer, ops.index) if linked else list[Step]()
            self._tables.reserve(len(nodes))
        except TramplabError:
            for at in taken:
                heap.give(at)
            raise
        rows = b"".join(fields(image, "fprobe_hlist_node", {"addr": ip, "fp": probe}) for ip in ips)
        head = fields(image, "fprobe_hlist", {"fp": probe, "size": len(ips)})
        ops.address, self._listed[ops.index], ops.structs = probe, Listed(probe, hlist, nodes), taken
        places = image.struct("lab_private").fields
        go_to = private + places["go_to"].offset
        if shim:
            runs += [*shims.shim(self._guest, request, ops.functions[0], private, shim), word(go_to, shim, "the shim")]
        return [
            word(private + places["hits"].offset, 0, "the fprobe has seen no call"),
            *runs,
            block(probe, fields(image, "fprobe", values), "the fprobe"),
            block(hlist, head + rows, "the fprobe's places in the tables"),
        ]

    def _tracer(self, ops: Registered) -> list[Step]:
        """The steps that register the tracer, in the first place of the array and as the only one. Its filter is that of the
        ops."""
        image = self._image
        tracer, gops = image.address(_named(ops.request)), image.struct("fgraph_ops").fields
        private = private_of(image, ops.index)
        hits = private + image.struct("lab_private").fields["hits"].offset
        counts = [word(hits, 0, "it has seen no call"), word(tracer + gops["private"].offset, private, "what it counts in")]
        hashes = image.address("lab_ops_hash_pool") + ops.index * image.struct("ftrace_ops_hash").size
        hash_pointer = tracer + gops["ops"].offset + image.struct("ftrace_ops").fields["func_hash"].offset
        return [
            word(hash_pointer, hashes, "the tracer's filter"),
            *(counts if isinstance(ops.request, Fgraph) else ()),
            word(image.address("fgraph_array"), tracer, "the tracer"),
            word(image.address("fgraph_array_bitmask"), 1, "which tracers there are"),
            word(image.address("fgraph_direct_gops"), tracer, "the tracer that is alone"),
        ]


def _named(request: Request) -> str:
    """The guest's tracer that a request asks for."""
    if isinstance(request, Fgraph) and (request.watch or request.declines):
        return _WATCHER if request.watch else _DECLINER
    return _TRACERS[type(request)]
