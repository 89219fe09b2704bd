"""Calls that return at the first instruction of the traced function's body, and functions that cannot be traced."""

import dataclasses
import functools

import pytest

from support.vmlinux import small_kernels
from support.vmlinux.kernels import LAYOUTS, content, vmlinux
from tramplab import Kernel
from tramplab.emulate.image import Symbol
from tramplab.isa import ISAS
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.fprobe import Fprobe
from tramplab.trampolines.kprobe import Kprobe, Kretprobe
from tramplab.vmlinux import hooks
from tramplab.vmlinux.debian.fetch import there
from tramplab.vmlinux.debian.list import packages
from tramplab.vmlinux.open.traceable import untraced
from tramplab.vmlinux.run import arguments, early, measure
from tramplab.vmlinux.run.machine import RealMachine
from tramplab.vmlinux.saved import store

NAME = "three_args"
#: Hooks that see the function return, or stop it on its first instruction.
SEEING = (
    (),
    (Bpf(fexit=1),),
    (Fprobe(entry=False, exit=True),),
    (Kprobe(breakpoint=True),),
    (Kretprobe(breakpoint=True),),
)

# --- In the lab's kernel


@functools.cache
def lab(isa):
    return Kernel(isa)


def traced(kernel):
    function = kernel.function(NAME)
    first = kernel.machine.instruction_at(function.site.body)
    return early.Traced(NAME, function.site, function.address, function.size, False, first.address + first.size)


def called(kernel, function, requests):
    """(the call's run, the registers at the body each time, the stack pointer after it)."""
    at_body = []
    with kernel.attached(kernel.function(NAME), *requests):
        kernel.machine.watch(function.site.body, lambda: at_body.append(kernel.machine.registers()))
        with early.returning(kernel.machine, function, at_body, None):
            run = kernel.call(NAME, 3, 4, 5)
    return run, at_body


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("requests", SEEING, ids=str)
def test_a_function_returns_early_and_its_hooks_run(isa, requests):
    kernel = lab(isa)
    function = traced(kernel)
    before = kernel.machine.read(function.address, function.size)
    with kernel.attached(kernel.function(NAME), *requests):
        usual = kernel.call(NAME, 3, 4, 5)
    run, at_body = called(kernel, function, requests)
    assert run.value == early.VALUE != usual.value
    assert [[there[r] for r in kernel.isa.args[:3]] for there in at_body] == [[3, 4, 5]]
    for register in (*kernel.isa.callee_saved, kernel.isa.sp):
        assert run.registers[register] == usual.registers[register], register
    assert run.hits == usual.hits
    for component in ("site", "trampoline", "core", "callback"):
        assert run.counts.by_component[component] == usual.counts.by_component[component], component
    assert kernel.machine.read(function.address, function.size) == before
    assert kernel.call(NAME, 3, 4, 5).value == usual.value


@pytest.mark.parametrize("isa", ISAS)
def test_a_probed_instruction_runs_before_the_return(isa):
    """The body's first instruction is executed in the kprobe's slot, where the breakpoint is on it."""
    kernel = lab(isa)
    function = traced(kernel)
    first = kernel.machine.instruction_at(function.site.body)
    run, _ = called(kernel, function, (Kprobe(breakpoint=True),))
    executed = [i.data for pc, i in run.instructions.items() if run.symbol_of(pc).startswith("kprobe_insn_slot")]
    inside = [pc for pc in run.instructions if function.site.body <= pc < function.end]
    if function.site.body + first.size in inside:  # not on arm64, nor where an AUIPC is probed
        assert inside == [function.site.body, function.second] and first.data in executed
    else:
        assert inside == [function.site.body]


@pytest.mark.parametrize("isa", ISAS)
def test_arguments_differ_and_can_be_read(isa):
    values = arguments.registers(ISAS[isa])
    assert len(set(values.values())) == len(values) and values[ISAS[isa].args[0]] == arguments.FIRST
    areas = arguments.areas(ISAS[isa])
    for register in ISAS[isa].args:
        assert sum(a.address <= values[register] - 1024 and values[register] + 8192 < a.end for a in areas) == 1


# --- On real kernels

ONE = [p for p in packages() if p.one]
#: Functions that people name. The first instruction of the last reads or writes through an argument on x86-64 and riscv64.
PEOPLE = ("vfs_read", "tcp_v4_connect", "schedule", "ip_rcv", "do_sys_openat2", "bit_wait_timeout")


@pytest.fixture(params=ONE, ids=lambda p: p.name)  # one for each test: a call that fails leaves a CPU's state behind
def machine(request):
    if not there(request.param):
        pytest.skip(f"{request.param.name} has not been fetched (make kernels)")
    return RealMachine(store.opened(request.param))


def test_every_hook_is_measured_on_functions_that_people_name(machine):
    usual = {m.hook.name: m for m in measure.every(machine)}
    for name in PEOPLE:
        for m in measure.every(machine, name):
            assert m.status == usual[m.hook.name].status, (name, m.hook.name, m.reason)
            if m.run and not m.hook.name.startswith("bpf"):  # BPF saves as many words as the function takes
                for part in ("trampoline", "core"):
                    ours, theirs = (r.run.counts.by_component[part].instructions for r in (m, usual[m.hook.name]))
                    several = int(m.hook.name.partition(":")[2] or 1)
                    # a bucket may be shared with another address
                    assert abs(ours - theirs) <= 5 * several, (name, m.hook.name, part)


def test_a_function_that_the_hook_itself_calls_is_named(machine):
    (found,) = measure.every(machine, "migrate_disable" if machine.isa.name != "x86_64" else "__rcu_read_lock", ["bpf-fentry"])
    assert (found.status, found.run) == (measure.FAILED, None)
    assert found.reason.startswith("the hook's own code calls ")


def test_a_copy_that_gcc_made_can_be_traced_but_not_by_bpf(machine):
    name = next(n for n, s in sorted(machine.opened.image.symbols.items()) if n.endswith(".isra.0") and machine._site(s))
    found = {m.hook.name: m for m in measure.every(machine, name, ["ops", "bpf-fentry"])}
    assert found["ops"].status == measure.MEASURED
    assert found["bpf-fentry"].status == measure.ABSENT and "the image's types say nothing of" in found["bpf-fentry"].reason


def test_a_kprobe_on_a_jump_is_not_measured_and_says_why(machine):
    """The lab does not do what the kernel does of such an instruction; nothing but that hook is lost."""
    if machine.isa.name == "arm64":
        return  # a kprobe takes the place of MOV X9, LR
    jump = {"x86_64": "jmp", "riscv64": "c.beqz"}[machine.isa.name]
    symbols = machine.opened.image.symbols.values()
    sites = ((s.name, machine._site(s)) for s in symbols)
    name = next(n for n, site in sites if site and machine.machine.instruction_at(site.body).mnemonic == jump)
    found = {m.hook.name: m for m in measure.every(machine, name, ["ops", "kprobe-brk"])}
    assert found["ops"].status == measure.MEASURED
    assert "the lab does not simulate" in found["kprobe-brk"].reason and hooks.get("kprobe-brk").name in found


# --- Functions that cannot be traced


@functools.cache
def image(folder):
    base = small_kernels.ARM
    made = content(base, LAYOUTS["v6.12: base"])
    return small_kernels.opened(folder / "vmlinux", vmlinux("arm64", [(base, base, bytes(made.data), 0)]))


def said(folder, name, **more):
    """The sentence on a function, in a kernel with these symbols, by their distance from the text; those of `sites` have one."""
    kernel = image(folder)
    start, end = kernel.text
    sites = ("vfs_read", "vfs_readv", "tcp_v4_connect", "__x64_sys_read", "fill.isra.0")
    others = ("fill.isra.0.cold", "schedule_notrace", "vfs_read.cold", "__noinstr_text_start", "sync_regs", "__noinstr_text_end")
    outside = {"_sinittext": 1 << 20, "start_kernel": (1 << 20) + 8, "_einittext": 2 << 20, "init_task": 3 << 20}
    places = {**{n: 16 * i for i, n in enumerate((*sites, *others))}, **outside}
    symbols = {n: Symbol(n, start + at, 16) for n, at in places.items()}
    kernel = dataclasses.replace(kernel, image=dataclasses.replace(kernel.image, symbols=symbols))
    assert start + 16 * len(places) < end < start + (1 << 20)
    error = str(untraced(kernel, name, lambda s: s.name in sites))
    assert str(kernel.payload.path) in error and error.count(". ") == 0
    return error.replace(str(kernel.payload.path), "FILE")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("vfs_raed", "FILE has no function 'vfs_raed' (did you mean vfs_read or vfs_readv?): name another function by --function"),
        ("tcp_connect_v4", "FILE has no function 'tcp_connect_v4' (did you mean tcp_v4_connect?)"),
        ("sys_read", "(did you mean __x64_sys_read?)"),
        ("schedule_notraec", "FILE has no function 'schedule_notraec': name"),  # what is near it cannot be traced
        ("fill", "FILE has no code of fill itself, GCC made fill.isra.0 of it: give that to --function."),
        ("bpf_fentry_test1", "FILE has no code of the name bpf_fentry_test1, though its types know it: all calls"),
        ("vfs_read.cold", "it is the part of vfs_read that GCC moved away"),
        ("start_kernel", "start_kernel of FILE cannot be traced, it is __init code, which is freed after boot"),
        ("init_task", "it is no function of the kernel's text"),
        ("sync_regs", "it is in .noinstr.text or .entry.text, where no function may be traced"),
        ("schedule_notrace", "it is notrace, as inline functions are, or assembly, so it has no patch site: name another"),
    ],
)
def test_a_function_that_cannot_be_traced_says_why(tmp_path_factory, name, wanted):
    assert wanted in said(tmp_path_factory.getbasetemp(), name)
