"""Registering and unregistering: the part of kernel/trace/ftrace.c that decides, as plans of explicit steps.

The order is the kernel's: the ops joins the list, records are updated, the common trampolines call the list function
while sites change, each site is patched, and last the common trampolines get the function that fits.
"""

from __future__ import annotations

from ..emulate.image import Image
from ..emulate.machine import MODULE_SIZE
from ..errors import TramplabError
from ..trampolines.bpf import Bpf, BpfTrampolines
from ..trampolines.copied import OpsTrampolines
from ..trampolines.saving import SETS, SavingTrampolines
from . import arch
from .layout import Heap, OpsMemory, hash_table
from .ops import FL_DIRECT, FL_DYNAMIC, FL_ENABLED, FL_RCU, FL_SAVE_REGS, Direct, Ops, Registered, selected
from .records import IGNORE, MAKE_NOP, Record
from .releases import Features, history
from .site import Site
from .steps import Step, Sync, Write, word


class SlowPath:
    """The bookkeeping of one guest. Every change returns its steps; nothing here touches the machine."""

    def __init__(self, image: Image, features: Features, heap: Heap) -> None:
        self.image, self.features = image, features
        self.arch = arch.of(image.isa)
        self.records = {
            s.function: Record(s, features["counter_bits"], bool(features["call_ops"])) for s in self._sites()
        }
        self.ops: list[Registered] = []  # newest first, as on ftrace_ops_list
        self.memory = OpsMemory(image, heap)
        area = Heap(
            image.isa.module_base, MODULE_SIZE, "the guest's module area is full: too many trampolines at once."
        )
        self.trampolines = OpsTrampolines(image, area) if features["per_ops_trampoline"] else None
        self.saving = SavingTrampolines(image, features)
        self.bpf = BpfTrampolines(image, features, lambda function: self.records[function].site, area, heap)
        self._heap = heap
        self._direct_block: int | None = None
        self._trace_func = image.address("ftrace_stub")
        self._literals: dict[str, int] = {}

    # changes

    def boot(self) -> list[Step]:
        """What is done once to every site before anything is traced."""
        return [s for r in self.records.values() for s in self.arch.boot(r.site, self.features, self.image.address)]

    def register(self, request: Ops | Direct) -> tuple[Registered, list[Step]]:
        """Add an ops. Raises TramplabError for what this release cannot do; then nothing has changed."""
        functions = selected(request, tuple(self.records))
        self._check(request, functions)
        index, address = self.memory.claim()
        ops = self._make(request, index, address, functions)
        try:
            steps = self._allocate(ops)
            self.ops.insert(0, ops)
            steps += self._direct_table()
        except TramplabError:
            self.ops = [o for o in self.ops if o is not ops]
            self._release(ops)
            raise
        steps.append(word(self.image.address("ftrace_ops_list"), address, "the ops joins the list"))
        for f in functions:
            self.records[f].add(ops)
        return ops, steps + self._update(functions)

    def unregister(self, ops: Registered) -> list[Step]:
        """Take an ops away again; raises TramplabError if it is not registered."""
        if ops not in self.ops:
            raise TramplabError(f"that ops (for {', '.join(ops.functions)}) is not registered, or not any more.")
        at = self.ops.index(ops)
        after = self.ops[at + 1].address if at + 1 < len(self.ops) else self.image.address("ftrace_list_end")
        self.ops.remove(ops)
        holder = self.memory.next_field(self.ops[at - 1].address) if at else self.image.address("ftrace_ops_list")
        steps: list[Step] = [word(holder, after, "the ops leaves the list")]
        for f in ops.functions:
            self.records[f].remove(ops, self.wanting(f))
        steps += self._update(ops.functions)
        steps += self._direct_table()
        steps.append(Sync("synchronize_rcu_tasks", "nobody is still in the ops or its trampoline"))
        return steps + self._release(ops)

    # answers

    def wanting(self, function: str) -> list[Registered]:
        """The registered ops that want a function, in list order."""
        return [o for o in self.ops if o.wants(function)]

    def target(self, function: str) -> int:
        """Where a record's site goes (ftrace_get_addr_new): direct call, the only ops' trampoline, or a common one."""
        record = self.records[function]
        if not record.count:
            return 0
        common = self.image.address("ftrace_regs_caller" if record.has("REGS") else "ftrace_caller")
        if record.has("DIRECT") and record.count == 1:
            direct = next(o.direct for o in self.wanting(function) if o.direct)
            return direct if self._reaches(record.site, direct) else common
        if record.has("TRAMP"):
            own = self.wanting(function)[0].trampoline
            return own if self._reaches(record.site, own) else common
        return common

    # inside

    def _sites(self) -> list[Site]:
        """The compiler's records, each with the function whose site it is."""
        functions = sorted(self.image.functions.values(), key=lambda s: s.address)
        compiled = sorted(self.image.patch_sites)
        if len(functions) != len(compiled):
            raise TramplabError(
                f"{len(functions)} traced functions but {len(compiled)} patch sites in {self.image.path}."
            )
        return [self.arch.site(f.name, f.address, at, self.features) for f, at in zip(functions, compiled, strict=True)]

    def _reaches(self, site: Site, target: int) -> bool:
        return self.arch.reaches(site, target, self.features, self.image.address)

    def _head(self) -> int:
        return self.ops[0].address if self.ops else self.image.address("ftrace_list_end")

    def _check(self, request: Ops | Direct, functions: tuple[str, ...]) -> None:
        isa = self.image.isa.name
        if isinstance(request, Direct):
            if not self.features["direct"]:
                raise TramplabError(f"{self.features} has no direct calls; {isa} has them {history(isa, 'direct')}.")
            if isinstance(request, Bpf):
                self.bpf.check(functions)
        elif request.save == "regs" and not self.features["regs"]:
            raise TramplabError(f"{self.features} has no ftrace_regs_caller; {isa} has it {history(isa, 'regs')}.")
        elif request.save in SETS:
            self.saving.check(request.save, self.ops)
        elif request.ipmodify and request.save == "args" and not self.features["args"]:
            raise TramplabError(
                f"{self.features} lets only an ops with save='regs' change the ip; one with save='args' may on {isa} "
                f"{history(isa, 'args')}."
            )
        for f in functions:
            self.records[f].check(isinstance(request, Direct), request.ipmodify)
            everybody = [request, *(o.request for o in self.wanting(f))]
            if len(everybody) > 1 and any(r.changes_stack for r in everybody):
                raise TramplabError(
                    f"an ops that changes the stack must be alone on {f}, because only its own trampoline restores sp: detach "
                    "the others first."
                )

    def _make(self, request: Ops | Direct, index: int, address: int, functions: tuple[str, ...]) -> Registered:
        if isinstance(request, Direct):
            flags = FL_ENABLED | FL_DIRECT | (FL_SAVE_REGS if self.features["regs"] else 0) | FL_DYNAMIC
            func = self.image.address("call_direct_funcs")
            direct = 0 if isinstance(request, Bpf) else self.image.address(request.target)
            common = self.image.address("ftrace_regs_caller" if self.features["regs"] else "ftrace_caller")
        else:
            flags, func, direct, common = request.flags | FL_ENABLED, self.image.address(request.callback), 0, 0
        return Registered(
            request, index, address, func, flags, request.filter, request.notrace, functions, trampoline=common, direct=direct
        )

    def _allocate(self, ops: Registered) -> list[Step]:
        """Make everything that an ops owns: its trampoline, hashes and struct."""
        own = self._own_trampolines(ops)
        steps = own.create(ops) if own else []
        if ops.request.changes_stack:
            for f in ops.functions:
                if not self._reaches(self.records[f].site, ops.trampoline):
                    raise TramplabError(f"the patch site of {f} cannot reach the trampoline that restores sp.")
        ips = {f: r.site.ip for f, r in self.records.items()}
        return steps + self.memory.writes(ops, self._head(), ips, bool(self.features["direct_in_ops"]))

    def _own_trampolines(self, ops: Registered) -> OpsTrampolines | SavingTrampolines | BpfTrampolines | None:
        """Who makes this ops' own trampoline, if anybody does."""
        if isinstance(ops.request, Bpf):
            return self.bpf
        return self.saving if ops.request.save in SETS else self.trampolines

    def _release(self, ops: Registered) -> list[Step]:
        """Give back what an ops owns."""
        own = self._own_trampolines(ops)
        self.memory.release(ops.index)
        return own.free(ops) if own else []

    def _direct_table(self) -> list[Step]:
        """Releases that look direct targets up in one hash get that hash written anew."""
        if self.features["direct_in_ops"] or not self.features["direct"]:
            return []
        entries = {self.records[f].site.ip: o.direct for o in self.ops if o.direct for f in o.functions}
        members, base = {"size_bits": 0, "buckets": 0, "count": 0}, None
        steps: list[Step] = []
        if entries:
            members, block, base = hash_table(self.image, self._heap, entries)
            steps.append(Write(base, block, False, "buckets and entries of the table of direct calls"))
        if self._direct_block is not None:  # the new table is there before the old one goes
            self._heap.give(self._direct_block)
        self._direct_block = base
        base, struct = self.image.address("lab_direct_functions"), self.image.struct("ftrace_hash")
        return steps + [
            word(base + struct.fields[n].offset, v, f"table of direct calls: {n}") for n, v in members.items()
        ]

    def _update(self, functions: tuple[str, ...]) -> list[Step]:
        """Bring trampolines, literals and sites in line with the records."""
        func, op = self._common_function()
        list_func = self.image.address("ftrace_ops_list_func")
        changes, literals = [], []
        for f in functions:
            record = self.records[f]
            action = record.settle()
            literals += self._literal(record)
            if action == IGNORE:
                continue
            data, why = self._site_bytes(record, action)
            changes.append((record.site, data, why))
        update = func != self._trace_func
        steps: list[Step] = []
        if update:
            steps += self._patch_common(list_func, "all is served by the list function meanwhile")
        steps += literals
        steps += self.arch.write_sites(changes, self.features)
        if update and func != list_func:
            steps.append(
                word(self.image.address("function_trace_op"), op, "the ops that the common trampolines pass on")
            )
            if not self.arch.stops_machine(self.features):
                steps.append(Sync("ftrace_sync_ipi", "every CPU sees the ops before the function"))
            steps += self._patch_common(func, "the function that fits now")
        self._trace_func = func
        return self.arch.update_code(steps, self.features) if steps else []

    def _site_bytes(self, record: Record, action: str) -> tuple[bytes, str]:
        site, address = record.site, self.image.address
        if action == MAKE_NOP:
            return self.arch.nop_bytes(site, self.features, address), "nobody traces it any more"
        target = self.target(site.function)
        name = self.image.where(target) or "an ops' own trampoline"
        return self.arch.call_bytes(site, target, self.features, address), f"{action}: {name}"

    def _literal(self, record: Record) -> list[Step]:
        """The callsite's ops, where the release keeps one: nobody's, the only one's, or the list's."""
        site = record.site
        if site.literal is None:
            return []
        if not record.count:
            ops, why = self.image.address("ftrace_nop_ops"), "no ops"
        elif record.has("CALL_OPS_EN"):
            ops, why = self.wanting(site.function)[0].address, "its only ops"
        else:
            ops, why = self.image.address("ftrace_list_ops"), "the list of ops"
        if self._literals.get(site.function, self.image.address("ftrace_nop_ops")) == ops:
            return []
        self._literals[site.function] = ops
        return [self.arch.write_literal(site, ops, why)]

    def _common_function(self) -> tuple[int, int]:
        """What the common trampolines call, and the ops they pass (update_ftrace_function).

        None registered: the stub. One: its own function, unless it is dynamic or wants RCU. Otherwise the list function.
        """
        if not self.ops:
            return self.image.address("ftrace_stub"), self.image.address("ftrace_list_end")
        if len(self.ops) == 1 and not self.ops[0].flags & (FL_DYNAMIC | FL_RCU):
            only = self.ops[0]
            return (self.image.address("ftrace_ops_assist_func") if only.assisted else only.func), only.address
        return self.image.address("ftrace_ops_list_func"), self.image.address("ftrace_list_end")

    def _patch_common(self, func: int, why: str) -> list[Step]:
        """Repoint the call in each common trampoline, in text or in memory; with CALL_OPS there is none to repoint."""
        steps: list[Step] = []
        if "ftrace_call_dest" in self.image.symbols:
            steps.append(word(self.image.address("ftrace_call_dest"), func, why))
            steps.append(Sync("ftrace_sync_ipi", "every CPU sees the new pointer"))
        for label in ("ftrace_call", "ftrace_regs_call"):
            if label in self.image.symbols:
                steps += self.arch.patch_call(self.image.address(label), func, why)
        return steps
