"""Graph tracers, fprobes and kprobes on real kernels: the kernel's own functions run, and our handlers get the right things;
long because an image is opened once for all of its tests."""

import dataclasses
import itertools
import re

import pytest

from support.models import handmade
from tramplab.ftrace.layout import bucket
from tramplab.isa import ISAS
from tramplab.trampolines.arguments import words
from tramplab.vmlinux import hooks
from tramplab.vmlinux.booted import x86_64
from tramplab.vmlinux.booted.mitigations import INDIRECT_MORE, RETURN_MORE, SRSO
from tramplab.vmlinux.debian.fetch import there
from tramplab.vmlinux.debian.list import packages
from tramplab.vmlinux.hooks import bpf, breakpoints, fprobes, handlers, inplace, kretprobes, pools, programs
from tramplab.vmlinux.hooks.handlers import ENTRY, RETURN, Given
from tramplab.vmlinux.hooks.hook import FIRST, Absent
from tramplab.vmlinux.run import arguments, measure, stubs
from tramplab.vmlinux.run.machine import FUNCTION, RealMachine
from tramplab.vmlinux.saved import store

EVERY = {p.name: p for p in packages()}
#: With fprobes on the graph tracer, and direct calls that x86-64 jumps to.
LATE = ("v7.2", "v7.3")
x86_64_alone = pytest.mark.parametrize("kernel", [n for n, p in EVERY.items() if p.isa == "x86_64"], indirect=True)
#: Functions that run only where something went wrong, and what would be done if a task could be preempted.
TROUBLE = {"__warn_printk", "_printk", "panic", "__stack_chk_fail", "static_key_enable", "preempt_schedule_notrace", "call_rcu"}
RETURNS = {"return_to_handler", "arch_rethook_trampoline", "__kretprobe_trampoline"}
#: What a breakpoint leads to, and a kretprobe that has its instances itself; and where a pt_regs has something that no function
#: with one argument returns.
BREAKPOINT = {
    "x86_64": {"asm_exc_int3", "kprobe_int3_handler"},
    "arm64": {"el1h_64_sync_handler", "kprobe_brk_handler", "kprobe_ss_brk_handler"},
    "riscv64": {"handle_exception", "kprobe_breakpoint_handler"},
}
OWN = {"arch_prepare_kretprobe", "kretprobe_brk_handler", "__kretprobe_trampoline_handler", "recycle_rp_inst"}
OTHER = {"x86_64": "sp", "arm64": "pc", "riscv64": "sp"}
KRETPROBES = ("kretprobe", "kretprobe-brk")
#: The hooks with a BPF program of a kprobe's kind, those of them at the return, and what runs the program.
ENTRIES, EXITS = ("kprobe-bpf", "kprobe-brk-bpf", "kprobe-multi"), ("kretprobe-bpf", "kretprobe-brk-bpf", "kretprobe-multi")
PERF = {"kprobe_dispatcher", "kprobe_perf_func", "trace_call_bpf"}
PERF_EXIT = {"kretprobe_dispatcher", "kretprobe_perf_func", "trace_call_bpf"}
PROGRAM = {programs.NAME}

# --- Handlers, without a kernel


@pytest.mark.parametrize("isa", ISAS)
def test_a_handler_counts_and_keeps_what_it_is_given(isa):
    kernel = handmade.kernel(isa)
    machine, heap = kernel.machine, kernel.machine.places.heap.end - 4096
    block, struct, behind = heap, heap + 64, heap + 128
    machine.write(block, bytes(stubs.BLOCK))
    machine.write_u64(struct + 16, behind)
    machine.write_u64(behind + 8, 0x1234_5678_9ABC_DEF0)
    start = kernel.isa.module_base + handmade.OFFSET + 0x1000
    for given, kept in (
        (Given(1), struct + 1),
        (Given(0, (16,)), behind),
        (Given(0, (16, 8)), 0x1234_5678_9ABC_DEF0),
        (Given(0, (16, 8), 4), 0x9ABC_DEF0),
    ):
        machine.write(block, bytes(stubs.BLOCK))
        machine.poke(start, handlers.code(kernel.isa, block, given, Given(2), 1))
        for times in (1, 2):
            raw = machine.call(start, dict(zip(kernel.isa.args, (struct, struct + 1, 77), strict=False)))
            assert [machine.read_u64(block + 8 * n) for n in range(3)] == [times, kept, 77]
            assert raw.registers[kernel.isa.returns[0]] == 1


# --- On real kernels


@pytest.fixture(params=EVERY, scope="module")  # so that all tests of one kernel follow each other, and it is opened once
def kernel(request):
    """(package, machine, traced function, registers, the call without a hook) of a fetched image."""
    if not there(EVERY[request.param]):
        pytest.skip(f"{request.param} has not been fetched (make kernels)")
    machine = RealMachine(store.opened(EVERY[request.param]))
    function, registers = machine.function(FUNCTION), arguments.registers(machine.isa)
    return EVERY[request.param], machine, function, registers, machine.call(function, registers)


def expected(package):
    """hook -> (functions that must run, handlers that must), None where the kernel has none."""
    x86, late, first = package.isa == "x86_64", package.release in LATE, package.release == "v6.1"
    enter = "function_graph_enter_regs" if late else "function_graph_enter"
    graph = {"ftrace_graph_func", enter}
    back = {"return_to_handler", "ftrace_return_to_handler"}
    rethook = {"rethook_try_get", "rethook_hook", "arch_rethook_trampoline", "rethook_trampoline_handler"}
    kprobe = {"kprobe_ftrace_handler", "get_kprobe"}
    through_graph = graph | back | {"fprobe_fgraph_entry", "fprobe_return", "fgraph_reserve_data"}
    through_ops = {"fprobe_handler", "fprobe_exit_handler"} | rethook
    fprobe = ({"fprobe_ftrace_entry"}, through_graph) if late else ({"fprobe_handler"}, through_ops)
    has = late or (x86 and not first)
    hooked = rethook | {"kretprobe_rethook_handler"} if package.isa != "arm64" else OWN | {"__kretprobe_trampoline"}
    taken = BREAKPOINT[package.isa] | {"get_kprobe"}
    by_breakpoint = taken | hooked | {"pre_handler_kretprobe"}
    kretprobe = kprobe | rethook | {"pre_handler_kretprobe", "kretprobe_rethook_handler"}
    link, exits = fprobe[0] | {"kprobe_multi_link_handler"}, fprobe[1] | {"kprobe_multi_link_exit_handler"}
    breaks = package.isa != "arm64" or not first
    return {
        "livepatch": ({"klp_ftrace_handler"}, set()) if x86 else None,
        "graph": (graph | back, {ENTRY, RETURN}),
        "graph-entry": (graph, {ENTRY}),
        "fprobe": (fprobe[0], {ENTRY}) if has else None,
        "fprobe-exit": (fprobe[1], {RETURN}) if has else None,
        "kprobe": (kprobe, {ENTRY}) if x86 else None,
        "kprobe-bpf": (kprobe | PERF, PROGRAM) if x86 else None,
        "kretprobe": (kretprobe, {RETURN}) if x86 else None,
        "kretprobe-bpf": (kretprobe | PERF_EXIT, PROGRAM) if x86 else None,
        "kprobe-brk": (taken, {ENTRY}) if breaks else None,
        "kprobe-brk-bpf": (taken | PERF, PROGRAM) if breaks else None,
        "kretprobe-brk": (by_breakpoint, {RETURN}) if breaks and takes(package) else None,
        "kretprobe-brk-bpf": (by_breakpoint | PERF_EXIT, PROGRAM) if breaks and takes(package) else None,
        "kprobe-multi": (link, PROGRAM) if has else None,
        "kretprobe-multi": (exits, PROGRAM) if has else None,
    }


def takes(package):
    """Do functions that ftrace can trace take a kretprobe? riscv64's first instruction was the patch site up to v6.15."""
    return (package.isa, package.release) != ("riscv64", "v6.12")


def reason(package, name):
    """What is said of a kernel that has no such hook."""
    if "kretprobe-brk" in name and not takes(package):
        return "has no kretprobes at functions that ftrace can trace; riscv64 has them v5.12 to v6.9, since v6.16"
    if name == "livepatch":
        return "has no klp_ftrace_handler()"
    if "fprobe" in name or "multi" in name:
        return "no fprobes (CONFIG_FPROBE=n)"
    return "the handler of a BRK in a list that boot fills" if "-brk" in name else "a kprobe is a breakpoint exception"


#: Where riscv64's entry to an exception puts registers until it has a stack, in the task's thread_info.
SCRATCH = ("user_sp", "kernel_sp", "a0", "a1", "a2")


def state(machine):
    """What a call must leave as it was: the current task but for such places, and x86-64's preempt count, which is the CPU's."""
    read, opened = machine.machine.read, machine.opened
    task = bytearray(read(machine.cpu.task, opened.struct("task_struct").size))
    fields = opened.struct("thread_info").fields if opened.isa.name == "riscv64" else {}
    for field in (fields[name] for name in SCRATCH if name in fields):
        task[field.offset : field.offset + field.size] = bytes(field.size)
    found = [bytes(task)]
    count = "pcpu_hot" if opened.has("pcpu_hot") else "__preempt_count"
    if opened.has(count):
        inside = opened.struct(count).fields["preempt_count"].offset if count == "pcpu_hot" else 0
        found.append(read((opened.address(count) + machine.cpu.percpu & (1 << 64) - 1) + inside, 4))
    return found


def test_the_kernels_own_functions_run(kernel):
    package, machine, function, registers, idle = kernel
    for name, wanted in expected(package).items():
        found = measure.one(machine, function, hooks.get(name), registers, idle)
        if wanted is None:
            assert found.status == measure.ABSENT and reason(package, name) in found.reason, (name, found.reason)
            continue
        assert found.status == measure.MEASURED, (name, found.reason)
        functions, called = wanted
        assert functions <= found.run.symbols, (name, functions - found.run.symbols)
        assert {s for s in found.run.symbols if s in (ENTRY, RETURN, programs.NAME)} == called, name
        assert not found.run.symbols & TROUBLE, (name, found.run.symbols & TROUBLE)
        assert bool(found.run.symbols & RETURNS) == (RETURN in called or name in EXITS), name
        again = measure.one(machine, function, hooks.get(name), registers, idle)
        assert again.run.counts.by_symbol == found.run.counts.by_symbol, name


def test_a_call_leaves_task_and_cpu_as_they_were(kernel):
    package, machine, function, registers, _ = kernel
    for name, wanted in expected(package).items():
        if wanted:
            hooks.get(name).attach(machine, function)
            before = state(machine)
            machine.call(function, registers)
            after = state(machine)
            machine.reset()
            assert after == before, name


def test_a_call_that_fails_leaves_nothing(kernel):
    """A kretprobe on what its own breakpoint calls never ends well; a kprobe there does, also after it, and one elsewhere."""
    package, machine, traced, registers, alone = kernel
    if not expected(package)["kretprobe-brk"]:
        return
    function = machine.function("pre_handler_kretprobe")
    idle = machine.call(function, registers)
    machine.reset()
    data = [s for s in machine.booted.image.segments if s.writable]
    before = [machine.machine.read(s.address, s.size) for s in data]
    kprobes = []
    for name in ("kprobe-brk", "kretprobe-brk", "kprobe-brk"):
        found = measure.one(machine, function, hooks.get(name), registers, idle)
        assert (found.status == measure.FAILED) == (name == "kretprobe-brk"), found.reason
        assert [machine.machine.read(s.address, s.size) for s in data] == before, name
        kprobes += [measure.row(found)] * (name == "kprobe-brk")
    assert kprobes[0] == kprobes[1]
    assert measure.one(machine, traced, hooks.get("kretprobe-brk"), registers, alone).status == measure.MEASURED


class Jumping:
    """A kernel's types, with the constant by which a kernel that jumps is known."""

    def __init__(self, types) -> None:
        self._types = types

    def __getattr__(self, name):
        return getattr(self._types, name)

    def enumerator(self, name):
        return 0 if name == "BPF_MOD_NOP" else self._types.enumerator(name)


def test_a_site_jumps_to_who_calls_the_function_itself(kernel):
    """From v6.19 on x86-64 says so by an odd address: a site that called it would leave a word too many on the stack."""
    package, machine, function, _, _ = kernel
    later = RealMachine(dataclasses.replace(machine.opened, types=Jumping(machine.opened.types)))
    target = later.machine.places.modules.address
    for one, jumps in ((machine, package.release in LATE and package.isa == "x86_64"), (later, package.isa == "x86_64")):
        assert bool(one.features["direct_jmp"]) == jumps
    if package.isa == "x86_64":
        later.call_from_site(function.site, target | 1)
        assert later.machine.read(function.site.ip, 1) == b"\xe9"
        later.call_from_site(function.site, target)
        assert later.machine.read(function.site.ip, 1) == b"\xe8"


def test_a_tracer_that_cannot_follow_the_return_is_found_out(kernel):
    """Without a shadow stack the kernel calls no handler, and the check must say so."""
    _, machine, function, registers, idle = kernel
    seen = hooks.get("graph").attach(machine, function)
    inplace.put(machine, "task_struct", machine.cpu.task, {"ret_stack": 0})
    run = machine.call(function, registers)
    said = measure.complaint(machine, function, seen, registers, run, idle)
    machine.reset()
    assert said == "the entry handler ran 0 times, not 1"


def test_a_graph_tracer_wants_only_the_functions_of_its_filter(kernel):
    _, machine, function, registers, _ = kernel
    hooks.get("graph").attach(machine, function)
    ops = inplace.variable(machine, "graph_ops")
    wanted = inplace.get(machine, "ftrace_ops", ops, "func_hash")
    table = inplace.get(machine, "ftrace_ops_hash", wanted, "filter_hash")
    assert inplace.get(machine, "ftrace_hash", table, "count") == 1
    assert inplace.get(machine, "ftrace_ops", ops, "func") == machine.address("ftrace_graph_func")
    machine.call(function, registers)
    machine.reset()
    assert inplace.get(machine, "task_struct", machine.cpu.task, "ret_stack") == 0


def attached(kernel):
    """name, what a call must show, and the struct kretprobe, of each kretprobe that a kernel has, which is attached: as functions
    without a patch site have it where others take none."""
    package, machine, function, _, _ = kernel
    for name in (n for n in KRETPROBES if expected(package)[n] or (n == "kretprobe-brk" and not takes(package))):
        must = (hooks.get(name).attach if takes(package) else breakpoints.untraced)(machine, function)
        ip = function.site.ip if name == "kretprobe" else breakpoints.probed(machine, function)
        node = machine.machine.read_u64(inplace.variable(machine, "kprobe_table") + 8 * bucket(ip, 6))
        yield name, must, node - machine.opened.struct("kprobe").fields["hlist"].offset
        machine.reset()


def at_probe(machine, function, name):
    """Where a hook's probe is, and how far behind that a CPU is when its program runs."""
    if "multi" in name:
        return function.site.body, 0
    after_int3 = 1 if machine.isa.name == "x86_64" else 0
    return breakpoints.probed(machine, function) if "-brk" in name else function.site.ip, after_int3


def test_a_program_sees_the_ip_and_the_argument_or_the_value(kernel):
    """And a program in whose CPU another one runs is missed."""
    package, machine, function, registers, idle = kernel
    active = machine.opened.image.symbols.get("bpf_prog_active")  # an image may not name its data
    for name in (n for n in (*ENTRIES, *EXITS) if expected(package)[n]):
        (seen,) = hooks.get(name).attach(machine, function).observed
        machine.call(function, registers)
        found = [machine.machine.read_u64(seen.block + n) for n in (stubs.HITS, stubs.FIRST, stubs.SECOND)]
        place, behind = at_probe(machine, function, name)
        assert found == ([1, machine.machine.return_to, idle.value] if name in EXITS else [1, place + behind, FIRST]), name
        if active:
            machine.write(active.address + machine.cpu.percpu & (1 << 64) - 1, (1).to_bytes(4, "little"))
            assert machine.call(function, registers).value == idle.value, name
            assert machine.machine.read_u64(seen.block + stubs.HITS) == 1, name
        machine.reset()


def test_a_program_that_sees_something_else_is_found_out(kernel, monkeypatch):
    package, machine, function, registers, idle = kernel
    for table, names, which in (
        (programs._ARGUMENT, ENTRIES, "second"),
        (programs._IP, ENTRIES, "first"),
        (programs.VALUE, EXITS, "second"),
        (programs._IP, EXITS, "first"),
    ):
        with monkeypatch.context() as m:
            m.setitem(table, machine.isa.name, "sp" if which == "first" else OTHER[machine.isa.name])
            for name in (n for n in names if expected(package)[n]):
                must = hooks.get(name).attach(machine, function)
                said = measure.complaint(machine, function, must, registers, machine.call(function, registers), idle)
                machine.reset()
                assert said.startswith("the program was given 0x") and f" {which}, not 0x" in said, name


def test_a_program_of_a_link_can_ask_where_the_function_begins(kernel):
    """bpf_get_func_ip() reads it in the run's context, which the task leads to meanwhile and no longer."""
    package, machine, function, registers, _ = kernel
    context = machine.cpu.task + machine.opened.struct("task_struct").fields["bpf_ctx"].offset
    for name in (n for n in ("kprobe-multi", "kretprobe-multi") if expected(package)[n]):
        hooks.get(name).attach(machine, function)
        (program,) = (g.address for g in machine.made if g.name == programs.NAME)
        told = []
        read = lambda told=told: told.append(  # noqa: E731
            inplace.get(machine, "bpf_kprobe_multi_run_ctx", machine.machine.read_u64(context), "entry_ip")
        )
        with machine.machine.watching(program, read):
            machine.call(function, registers)
        machine.reset()
        assert told == [function.address] and not machine.machine.read_u64(context), name


def pool(machine, probe):
    """The head of the pool that a kretprobe's calls take something of."""
    owned = "rph" if machine.isa.name == "arm64" else "rh"
    owner = inplace.get(machine, "kretprobe", probe, owned)
    return inplace.member(machine, {"rph": "kretprobe_holder", "rh": "rethook"}[owned], owner, "pool")


PLAIN = pytest.mark.parametrize("kernel", [n for n in EVERY if not {"cloud", "rt", "16k"} & set(n.split("-"))], indirect=True)
#: A function of the kernel's own with nine arguments that does nothing, and where no trampoline of BPF's is made for it.
MANY = "__probestub_smbus_reply"
WITHOUT = {"arm64 v6.12": "whose argument 9 is passed on the stack (-ENOTSUPP); releases since v6.16 do (commit 9014cf56f13d)"}


@PLAIN
def test_arguments_on_the_stack_reach_the_function_and_programs(kernel):
    """With every hook, and BPF's programs are given them, where a release makes such trampolines."""
    package, machine, *_ = kernel
    if not machine.opened.has(MANY):
        pytest.skip(f"{package.name} has no {MANY}()")
    found = {m.hook.name: m for m in measure.every(machine, MANY)}
    refused = WITHOUT.get(f"{package.isa} {package.release}")
    for name, m in found.items():
        if refused and name.startswith("bpf-f"):
            assert m.status == "absent" and m.reason.endswith(refused)
        else:
            assert m.status != "failed" or "cannot be executed elsewhere" in m.reason, f"{name}: {m.reason}"
    assert refused or found["bpf-fexit"].status == found["bpf-fentry"].status == "measured"


@PLAIN
@pytest.mark.parametrize("name", ["bpf-fentry", "bpf-fexit"])
def test_a_word_of_the_stack_from_a_wrong_place_is_found_out(kernel, monkeypatch, name):
    """In the array of a program; before that at the body of a function whose trampoline copies words for it."""
    package, machine, *_ = kernel
    if not machine.opened.has(MANY) or f"{package.isa} {package.release}" in WITHOUT:
        pytest.skip(f"{package.name} has no {MANY}(), or makes no trampoline for it")
    monkeypatch.setattr(bpf, "words", lambda *asked: tuple(p + 1 if isinstance(p, int) else p for p in words(*asked)))
    (found,) = measure.every(machine, MANY, [name])
    assert found.status == "failed"
    said = "word 1 on the stack was 0x2222222200000043" if name == "bpf-fexit" else "a program was given"
    assert found.reason.startswith(said)


def test_a_kretprobe_sees_the_value_and_the_way_back(kernel):
    _, machine, function, registers, idle = kernel
    for name, must, _ in attached(kernel):
        machine.call(function, registers)
        (seen,) = must.observed
        found = [machine.machine.read_u64(seen.block + n) for n in (stubs.HITS, stubs.FIRST, stubs.SECOND)]
        assert found == [1, machine.machine.return_to, idle.value], name


def test_a_kretprobe_that_sees_something_else_is_found_out(kernel, monkeypatch):
    _, machine, function, registers, idle = kernel
    monkeypatch.setitem(programs.VALUE, machine.isa.name, OTHER[machine.isa.name])
    for name, must, _ in attached(kernel):
        said = measure.complaint(machine, function, must, registers, machine.call(function, registers), idle)
        assert said.startswith("the kretprobe's handler was given 0x") and f"second, not {idle.value:#x}" in said, name


def test_what_a_call_took_goes_back_behind_the_rest(kernel):
    _, machine, function, registers, _ = kernel
    for name, _, probe in attached(kernel):
        head = pool(machine, probe)
        if not pools.rings(machine):
            first = inplace.get(machine, "freelist_head", head, "head")
            machine.call(function, registers)
            assert inplace.get(machine, "freelist_head", head, "head") == first, name
            assert inplace.get(machine, "freelist_node", first, "refs") == 1, name
            continue
        ring = machine.machine.read_u64(inplace.get(machine, "objpool_head", head, "cpu_slots"))
        machine.call(function, registers)
        slot = [inplace.get(machine, "objpool_slot", ring, member) for member in ("head", "tail", "last", "mask")]
        assert slot == [1, 11, 11, 15], name
        entries = inplace.member(machine, "objpool_slot", ring, "entries")
        first, last = (machine.machine.read_u64(entries + 8 * n) for n in (0, 10))
        assert first == last != 0, name


def test_a_kretprobe_with_an_empty_pool_misses_the_call(kernel):
    """The kernel says so itself, and the check does."""
    _, machine, function, registers, idle = kernel
    for name, must, probe in attached(kernel):
        head = pool(machine, probe)
        if pools.rings(machine):
            ring = machine.machine.read_u64(inplace.get(machine, "objpool_head", head, "cpu_slots"))
            inplace.put(machine, "objpool_slot", ring, {"head": 10})
        else:
            inplace.put(machine, "freelist_head", head, {"head": 0})
        said = measure.complaint(machine, function, must, registers, machine.call(function, registers), idle)
        assert said == "the kretprobe's handler ran 0 times, not 1", name
        assert inplace.get(machine, "kretprobe", probe, "nmissed") == 1, name


def test_a_hook_costs_the_same_if_the_function_returns_early(kernel):
    """All but the function itself, and what it takes of the stack where no hook takes more."""
    package, machine, _, registers, _ = kernel
    kinds = [machine] if package.isa != "x86_64" else [machine, RealMachine(machine.opened, "linked")]
    for one in kinds:
        rows = []
        for whole in (True, False):
            traced = one.function(FUNCTION, whole)
            idle = one.call(traced, registers)
            rows.append({h.name: measure.row(measure.one(one, traced, h, registers, idle)) for h in hooks.HOOKS.values()})
        for name, usual in rows[0].items():
            early = rows[1][name]
            if usual["status"] == measure.MEASURED:
                assert early["components"].pop("function")["instructions"] in (1, 2), name
                assert usual["components"].pop("function") and early.pop("stack_bytes") <= usual.pop("stack_bytes"), name
            assert early == usual, (one.mitigations, name)


def branches(run):
    """Of site, trampoline and C code of a call: returns, calls of what a register or memory holds, and such jumps."""
    kinds = {"ret": lambda i: i.mnemonic == "ret"}
    kinds |= {m: lambda i, m=m: i.mnemonic == m and not i.operands.startswith("0x") for m in ("call", "jmp")}
    theirs = {pc: i for pc, i in run.instructions.items() if run.component_of(pc) not in ("callback", "function")}
    counted = ({pc for pc, i in theirs.items() if chosen(i)} for chosen in kinds.values())
    return tuple(int(run.recording.each(of.__contains__).sum()) for of in counted)


@x86_64_alone
def test_mitigations_add_what_their_thunks_execute(kernel):
    """To a return three instructions, to an indirect call five and to an indirect jump, whose site is not filled by a NOP, six. And
    the counts of the lab's page on many probes rest on that; code of BPF's trampolines is the lab's, and left out."""
    _, machine, *_, registers, _ = kernel
    mitigated = RealMachine(machine.opened, SRSO)
    per = {}
    for one in (machine, mitigated):
        traced = one.function(FUNCTION)
        idle = one.call(traced, registers)
        for hook in (h for h in hooks.HOOKS.values() if not h.name.startswith("bpf-") and "-brk" not in h.name):
            found = measure.one(one, traced, hook, registers, idle)
            if found.run:
                per.setdefault(hook.name, []).append(found.run)
    assert len(per) > 8
    for name, (plain, safe) in per.items():
        counts = [sum(run.counts.by_component[c].instructions for c in ("site", "trampoline", "core")) for run in (plain, safe)]
        returns, calls, jumps = branches(plain)
        more = RETURN_MORE * returns + INDIRECT_MORE * calls + (INDIRECT_MORE + 1) * jumps
        assert counts[1] - counts[0] == more + RETURN_MORE, name  # and the traced function's own return
        assert {"srso_return_thunk", "srso_safe_ret"} <= safe.symbols


#: Of these a kernel is counted with two and with ten on one function, too.
SEVERAL = [name.removesuffix(":2") for name in hooks.HOOKS if name.endswith(":2") and "probe" in name]
#: And of these several are behind a kprobe that stands for them.
AGGREGATED = [name for name in SEVERAL if name.startswith("kretprobe") and "multi" not in name]


def test_each_of_several_is_called_once(kernel):
    """Each by itself, kretprobes behind a kprobe that stands for them; and each further one adds the same."""
    package, machine, function, registers, idle = kernel
    for name in (n for n in SEVERAL if expected(package)[n]):
        counts = []
        for n in (1, 2, 10):
            hook = hooks.get(name if n == 1 else f"{name}:{n}")
            assert len({seen.block for seen in hook.attach(machine, function).observed}) == n
            machine.reset()
            found = measure.one(machine, function, hook, registers, idle)
            assert found.status == measure.MEASURED, (hook.name, found.reason)
            assert ("aggr_pre_handler" in found.run.symbols) == (n > 1 and name in AGGREGATED)
            assert not found.run.symbols & TROUBLE, (hook.name, found.run.symbols & TROUBLE)
            counts.append(sum(found.run.counts.by_component[c].instructions for c in ("site", "trampoline", "core")))
        assert counts[2] > counts[1] > counts[0] and (counts[2] - counts[1]) % 8 == 0, (name, counts)


def test_one_of_several_that_is_on_no_list_is_found_out(kernel, monkeypatch):
    package, machine, function, registers, idle = kernel
    fill, grow = inplace.fill_list, fprobes._growing
    monkeypatch.setattr(inplace, "fill_list", lambda m, head, *entries: fill(m, head, *(entries[:-1] or entries)))
    monkeypatch.setattr(fprobes, "_growing", lambda m, table, entries, ip: grow(m, table, entries[1:], ip))
    tables = machine.opened.has("fprobe_rht_params")
    for name in (n for n in SEVERAL if expected(package)[n] and (tables or n in AGGREGATED)):
        found = measure.one(machine, function, hooks.get(f"{name}:2"), registers, idle)
        assert found.reason.endswith(" ran 0 times, not 1"), (name, found.reason)


@pytest.mark.parametrize("kernel", ["debian-7.2-amd64", "debian-7.2-arm64", "debian-7.2-riscv64"], indirect=True)
def test_fprobes_of_an_array_share_buckets(kernel, monkeypatch):
    """A return looks each fprobe up by its address. Of ten that follow each other, as our module has them in a booted kernel, seven
    to ten are met on the way to another one, at four or five instructions each."""
    package, machine, function, registers, idle = kernel
    size, bare, places = machine.opened.struct("fprobe").size, fprobes._bare, []

    def counted(offset):
        places.clear()
        array = []

        def placed(*asked):
            probe, *rest = bare(*asked)
            if offset is not None:
                array.append(array[0] + size * len(array) if array else machine.block(bytes(10 * size + offset)) + offset)
            places.append(array[-1] if array else probe)
            return places[-1], *rest

        monkeypatch.setattr(fprobes, "_bare", placed)
        run = measure.one(machine, function, hooks.get("fprobe-exit:10"), registers, idle).run
        return run.counts.by_component["core"].instructions

    def met():
        buckets = [bucket(at, 6) for at in places]
        return sum(one == other for one, other in itertools.combinations(buckets, 2))

    apart = counted(None)
    assert met() == 0, "as they are counted"
    more = {offset: (counted(offset) - apart, met()) for offset in (0, 64, 12 << 10, 20 << 10)}
    each = 4 if package.isa == "riscv64" else 5
    assert all(added == each * times and 7 <= times <= 10 for added, times in more.values()), more


@pytest.mark.parametrize("kernel", ["debian-6.1-arm64"], indirect=True)
def test_instances_on_a_list_are_not_laid_out(kernel):
    _, machine, *_ = kernel
    with pytest.raises(Absent, match=r"-arm64 keeps a kretprobe's instances on a list of its own, which is not laid out"):
        kretprobes.several(machine, kretprobes.make, 1)
    machine.reset()


@x86_64_alone
def test_bits_are_counted_by_an_instruction(kernel):
    """As on every CPU in use; the calls of a function in its place are all gone."""
    _, machine, *_ = kernel
    functions = {machine.address(f"__sw_hweight{bits}") for bits in (32, 64)}

    def calls(image):
        texts = [(s.address, s.data) for s in image.segments if s.executable]
        sites = [(at + m.end(), m[1]) for at, data in texts for m in re.finditer(rb"(?s)(?=\xe8(.{4}))", data)]
        return [site for site, far in sites if site + 5 + int.from_bytes(far, "little", signed=True) in functions]

    linked = calls(machine.opened.image)
    assert len(linked) > 30 and not calls(machine.booted.image)
    instruction = machine.machine.instruction_at(linked[0])
    assert (instruction.mnemonic, instruction.size) in {("popcnt", 4), ("popcnt", 5)}


@x86_64_alone
def test_static_branches_are_flipped_and_back(kernel):
    _, machine, *_ = kernel
    was = machine.machine.read
    sites = {at: was(at, len(code)) for at, code in x86_64.flipped(machine.opened, was, "__use_tsc")}
    for at, code in list(x86_64.flipped(machine.opened, was, "__use_tsc")):
        assert len(code) in (2, 5) and code != sites[at]
        machine.write(at, code)
    assert dict(x86_64.flipped(machine.opened, was, "__use_tsc")) == sites and sites
    machine.reset()
    assert {at: was(at, len(code)) for at, code in sites.items()} == sites
