"""Registering and unregistering: the part of kernel/trace/ftrace.c that decides, as plans of explicit steps.

The order is the kernel's: the ops joins the list, records are updated, the common trampolines call the list function
while sites change, each site is patched, and last the common trampolines get the function that fits. Who makes an ops'
own code is given from outside, see ftrace/maker.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base.errors import TramplabError
from ..emulate.image import Image
from . import arch, common
from .layout import Heap, OpsMemory, hash_table
from .maker import Maker, maker_of
from .ops import Agreed, Registered, Request, selected
from .records import IGNORE, MAKE_NOP, MODIFY_CALL, Record
from .releases import Features
from .site import Site
from .steps import Free, Step, Sync, Wait, block, word


class SlowPath:
    """Plans the changes that register and unregister ops.

    heap: where tables and hashes of this guest are laid out.
    sites: function -> its patch site.
    makers: of every kind of request that may come.
    memory: where ops are, by default the guest's pool.
    """

    def __init__(
        self,
        image: Image,
        features: Features,
        heap: Heap,
        sites: Mapping[str, Site],
        makers: Sequence[Maker],
        memory: OpsMemory | None = None,
    ) -> None:
        self.image, self.features, self.makers = image, features, makers
        self.arch = arch.of(image.isa)
        self.records = {name: Record(site, features["counter_bits"], bool(features["call_ops"])) for name, site in sites.items()}
        self.ops: list[Registered] = []  # newest first, as on ftrace_ops_list
        self.memory = memory or OpsMemory(image, heap)
        self._heap = heap
        self._direct_block: int | None = None
        self._kept: set[str] = set()  # functions whose direct call was not registered, and is in the hash of all the same
        self._trace_func = image.address("ftrace_stub")
        self._literals: dict[str, int] = {}

    # changes

    def boot(self) -> list[Step]:
        """The steps that are done once to every site before the first trace."""
        return [s for r in self.records.values() for s in self.arch.boot(r.site, self.features, self.image.address)]

    def register(self, request: Request) -> tuple[Registered, list[Step]]:
        """Register a request: the ops, and the steps that add it. Raises TramplabError for what this release cannot do; then
        nothing has changed."""
        functions = selected(request, tuple(self.records))
        maker = maker_of(request, self.makers)
        maker.check(request, functions)
        ops = maker.make(request, functions)
        self._check(ops)
        ops.index, ops.address = self.memory.claim()
        agreed: list[Agreed] = []
        try:
            for direct in self._sharing(ops):
                agreed.append(self._agree(direct))
                self._come_back(direct, direct is ops)
            steps = [s for a in agreed for s in a.steps] + self._allocate(ops, maker)
            self.ops.insert(0, ops)
            table, old = self._direct_table()
        except TramplabError:
            self.ops = [o for o in self.ops if o is not ops]
            for a in agreed:
                a.undo()
            self._give_back(ops, maker)
            raise
        steps += table
        old = [*(s for a in agreed for s in a.frees), *old]
        steps.append(Wait(Sync.RELEASE, "the ops is made before the list has it"))
        steps.append(word(self.image.address("ftrace_ops_list"), ops.address, "the ops joins the list"))
        for f in functions:
            self.records[f].add(ops, self._may_share(ops, f))
        return ops, steps + self._update(functions) + self._behind(old)

    def modify(self, ops: Registered, request: Request) -> list[Step]:
        """The steps that give a registered direct call what another request asks for (modify_ftrace_direct). Its owner is asked
        whether it shares with an ops that changes the ip, but for releases that forget to. Raises TramplabError for what cannot be;
        then nothing has changed."""
        if ops not in self.ops or not ops.remake:
            raise TramplabError("what is modified is a direct call of BPF's that is registered: attach it first.")
        maker_of(ops.request, self.makers).check(request, ops.functions)
        patched = any(o.ipmodify for f in ops.functions for o in self.wanting(f))
        steps, frees = ops.remake(ops, request, patched and (ops.shared or not self.features["direct_modified_unasked"]))
        if self.features["direct_in_ops"]:
            at = ops.address + self.image.struct("ftrace_ops").fields["direct_call"].offset
            steps.append(word(at, ops.direct, "the direct call's new target"))
        table, old = self._direct_table()
        alone = [self.records[f] for f in ops.functions if self.records[f].count == 1]
        changes = [(r.site, *self._site_bytes(r, MODIFY_CALL)) for r in alone]
        return steps + table + self.arch.write_sites(changes, self.features, self.image) + self._behind([*frees, *old])

    def unregister(self, ops: Registered) -> list[Step]:
        """The steps that remove an ops; raises TramplabError if it is not registered."""
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
        table, old = self._direct_table()
        freeing = maker_of(ops.request, self.makers).free(ops)
        return steps + table + self._behind([*freeing, *old, *self.memory.free(ops)], self._awaited(ops))

    # answers

    def wanting(self, function: str) -> list[Registered]:
        """The registered ops that want a function, in list order."""
        return [o for o in self.ops if o.wants(function)]

    def target(self, function: str) -> int:
        """The address that a function's site goes to (ftrace_get_addr_new): a direct call, the only ops' trampoline, or a common
        one."""
        record = self.records[function]
        if not record.count:
            return 0
        common = self.image.address("ftrace_regs_caller" if record.has("REGS") else "ftrace_caller")
        if record.has("DIRECT") and record.count == 1:
            direct = self._direct(function)
            jumped = any(o.jumped for o in self.wanting(function))
            return direct | jumped if self._reaches(record.site, direct) else common
        if record.has("TRAMP"):
            trampoline = self.wanting(function)[0].trampoline
            return trampoline if self._reaches(record.site, trampoline) else common
        return common

    # inside

    def _direct(self, function: str) -> int:
        """The target of the direct call of a function that has one."""
        return next(o.direct for o in self.wanting(function) if o.direct)

    def _reaches(self, site: Site, target: int) -> bool:
        return self.arch.reaches(site, target, self.features, self.image.address)

    def _head(self) -> int:
        return self.ops[0].address if self.ops else self.image.address("ftrace_list_end")

    def _check(self, ops: Registered) -> None:
        """Raise TramplabError if what is already registered on an ops' functions is in its way."""
        for f in ops.functions:
            if ops.is_direct and f in self._kept:
                raise TramplabError(
                    f"{f} takes no direct call any more (-EBUSY): the address of one that was not attached is still in the hash of "
                    "direct calls, as in kernels of v6.7 to v6.17. Boot another kernel."
                )
            self.records[f].check(ops.is_direct, ops.ipmodify, self._may_share(ops, f))
            others = self.wanting(f)
            lonely = [o.alone for o in (ops, *others) if o.alone]
            if others and lonely:
                raise TramplabError(lonely[0].format(f))

    def _come_back(self, direct: Registered, new: bool) -> None:
        """Register a direct call a second time, where its owner refused the first time and made its code again. In releases that
        keep its first address in the hash of direct calls this raises TramplabError."""
        if new and direct.registers_twice and self.features["direct_hash_kept"]:
            self._kept.update(direct.functions)
            self._check(direct)

    def _may_share(self, ops: Registered, function: str) -> bool:
        """Has every direct call that wants a function, this ops included, an ops_func, in a release that asks it?"""
        directs = [o for o in {ops, *self.wanting(function)} if o.is_direct]
        return bool(self.features["direct_shares"]) and all(o.ops_func for o in directs)

    def _sharing(self, ops: Registered) -> list[Registered]:
        """The direct calls that share a function with an ops that changes the ip once `ops` is registered, and did not before."""
        together: dict[Registered, None] = {}
        for f in ops.functions:
            wanting = [ops, *self.wanting(f)]
            if any(o.ipmodify for o in wanting):
                together.update(dict.fromkeys(o for o in wanting if o.is_direct and not o.shared))
        return list(together)

    def _agree(self, direct: Registered) -> Agreed:
        """Have a direct call's owner do what sharing takes; a new target is written to the ops where releases keep it there."""
        before = direct.direct
        agreed = direct.ops_func(direct) if direct.ops_func else Agreed()
        if before and direct.direct != before and self.features["direct_in_ops"]:
            at = direct.address + self.image.struct("ftrace_ops").fields["direct_call"].offset
            agreed.steps.append(word(at, direct.direct, "the direct call's new target"))
        return agreed

    def _allocate(self, ops: Registered, maker: Maker) -> list[Step]:
        """The steps that make everything that an ops owns: its trampoline, hashes and struct."""
        steps = maker.create(ops)
        for f in ops.functions:
            if ops.must_reach and not self._reaches(self.records[f].site, ops.trampoline or ops.direct):
                raise TramplabError(ops.must_reach.format(f))
        ips = {f: r.site.ip for f, r in self.records.items()}
        return steps + self.memory.writes(ops, self._head(), ips, bool(self.features["direct_in_ops"]))

    def _give_back(self, ops: Registered, maker: Maker) -> None:
        """Free at once what an ops has allocated, before any task could see it."""
        for step in (*maker.free(ops), *self.memory.free(ops)):
            if isinstance(step, Free):
                step.owner.give(step.what)

    def _awaited(self, ops: Registered) -> Sync:
        """The wait before an ops' memory is freed."""
        return Sync.RCU_TASKS

    @staticmethod
    def _behind(frees: list[Step], sync: Sync = Sync.RCU_TASKS) -> list[Step]:
        """Steps that free memory, after the wait for those that may still use it; none if nothing is to be freed."""
        return [Wait(sync, "nobody is still in the ops or its trampoline"), *frees] if frees else []

    def _direct_table(self) -> tuple[list[Step], list[Step]]:
        """The steps that rewrite the one hash of direct targets, in releases that have it, and those that free the old one."""
        if self.features["direct_in_ops"] or not self.features["direct"]:
            return [], []
        entries = {self.records[f].site.ip: o.direct for o in self.ops if o.direct for f in o.functions}
        members, base = {"size_bits": 0, "buckets": 0, "count": 0}, None
        steps: list[Step] = []
        if entries:
            members, data, base = hash_table(self.image, self._heap, entries)
            steps.append(block(base, data, "buckets and entries of the table of direct calls"))
        old: list[Step] = []
        if self._direct_block is not None:
            old.append(Free(self._heap, self._direct_block, "the table of direct calls that was there"))
        self._direct_block = base
        base, struct = self.image.address("lab_direct_functions"), self.image.struct("ftrace_hash")
        return steps + [word(base + struct.fields[n].offset, v, f"table of direct calls: {n}") for n, v in members.items()], old

    def _update(self, functions: tuple[str, ...]) -> list[Step]:
        """The steps that bring trampolines, literals and sites in line with the records."""
        func, op = common.function(self.image, self.ops)
        list_func = self.image.address("ftrace_ops_list_func")
        changes, literals = [], []
        for f in functions:
            record = self.records[f]
            action = self._settle(record)
            literals += self._literal(record)
            if action == IGNORE:
                continue
            data, why = self._site_bytes(record, action)
            changes.append((record.site, data, why))
        update = func != self._trace_func
        steps: list[Step] = []
        if update:
            steps += common.patch(self.image, self.arch, list_func, "all is served by the list function meanwhile")
        steps += literals
        steps += self.arch.write_sites(changes, self.features, self.image)
        if update and func != list_func:
            steps.append(word(self.image.address("function_trace_op"), op, "the ops that the common trampolines pass on"))
            steps.append(Wait(Sync.WMB, "the ops is visible before the function"))
            if not self.arch.stops_machine(self.features):
                steps.append(Wait(Sync.FTRACE_IPI, "every CPU sees the ops before the function"))
            steps += common.patch(self.image, self.arch, func, "the function that fits now")
        self._trace_func = func
        return self.arch.update_code(steps, self.features) if steps else []

    def _settle(self, record: Record) -> str:
        """Turn what is wanted into what is enabled, and say what the site needs."""
        return record.settle()

    def _site_bytes(self, record: Record, action: str) -> tuple[bytes, str]:
        site, address = record.site, self.image.address
        if action == MAKE_NOP:
            return self.arch.nop_bytes(site, self.features, address), "nobody traces it any more"
        target = self.target(site.function)
        made = any(g.address <= target < g.address + g.size for ops in self.ops for g in ops.generated)
        name = "an ops' own trampoline" if made else self.image.where(target)
        return self.arch.call_bytes(site, target, self.features, address), f"{action}: {name}"

    def _literal(self, record: Record) -> list[Step]:
        """The steps that write the callsite's word, where the release keeps one: no ops, the only one, or that of the list."""
        site = record.site
        if site.literal is None:
            return []
        ops, why = self._literal_value(record)
        if self._literals.get(site.function, self.image.address("ftrace_nop_ops")) == ops:
            return []
        self._literals[site.function] = ops
        return self.arch.write_word(site.literal, ops, f"{site.function}: {why}")

    def _literal_value(self, record: Record) -> tuple[int, str]:
        """The value of a callsite's word, and why it has that value."""
        if not record.count:
            return self.image.address("ftrace_nop_ops"), "no ops"
        if record.has("CALL_OPS_EN"):
            return self.wanting(record.site.function)[0].address, "its only ops"
        return self.image.address("ftrace_list_ops"), "the list of ops"
