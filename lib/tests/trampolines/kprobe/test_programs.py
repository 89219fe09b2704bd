"""BPF programs on kretprobes and on links of kprobe_multi: what they are given, what a call keeps, and the hooks by name."""

import functools

import pytest

from support.abi import kprobe_abi
from support.mutants.mutants import of
from tramplab import Fprobe, GuestFault, Kernel, Kprobe, Kretprobe, StepLimit, TramplabError
from tramplab.ftrace.releases import parse
from tramplab.isa import ISAS
from tramplab.lab import hooks, measure

every_isa = pytest.mark.parametrize("isa", ISAS)
ARGUMENTS = (11, 22, 33)
#: Kernels with links: on return hooks; and on the graph tracer, with each way to know where a function begins, and to make a
#: pt_regs.
LINKED = (
    *((isa, release, ()) for isa, release in (("x86_64", "v5.18"), ("x86_64", "v6.1"), ("x86_64", "v6.12"), ("riscv64", "v6.9"))),
    *(("x86_64", release, ()) for release in ("v6.16", "v6.18", "v7.2")),
    *(("arm64", release, ()) for release in ("v6.16", "v6.18", "v7.2")),
    ("arm64", "v7.2", (("bti", True),)),
    *(("riscv64", release, ()) for release in ("v6.14", "v6.16", "v7.2")),
)
linked = pytest.mark.parametrize("place", LINKED, ids=lambda p: "-".join([*p[:2], *(name for name, _ in p[2])]))
ends = pytest.mark.parametrize("returned", [False, True], ids=["entry", "return"])


@functools.lru_cache(maxsize=2)
def kernel(isa: str, release: str, overrides: tuple = ()) -> Kernel:
    return Kernel(isa, release, meter="count", **dict(overrides))


def links(returned: bool, **more) -> Fprobe:
    return Fprobe(entry=not returned, exit=returned, multi=True, **more)


def seen(k: Kernel) -> list[dict[str, object]]:
    """What programs wrote down since the last time."""
    image, layout = k.image, k.image.struct("lab_kprobe_seen")
    count, at = image.address("lab_kprobe_seen_count"), image.address("lab_kprobe_seen")
    out = []
    for n in range(k.machine.read_u64(count)):
        words = [k.machine.read_u64(at + n * layout.size + 8 * i) for i in range(layout.size // 8)]
        told = {name: words[layout.fields[name].offset // 8] for name in ("addr", "kprobe", "ip", "running")}
        regs = words[layout.fields["regs"].offset // 8 :]
        out.append({**told, **{r: regs[kprobe_abi.slot(k, r)] for r in (*k.isa.args, k.isa.returns[0])}, "words": regs})
    k.machine.write_u64(count, 0)
    return out


def held(k: Kernel) -> list[bytes]:
    """What a program's run must leave as it was: the CPU's counters and guards, the task's, and who is being run."""
    of_cpu = "bpf_prog_active", "preempt_count", "nr_pinned", "current_kprobe", "counts"
    of_task = "bpf_ctx", "preempt_count", "rcu_read_lock_nesting", "migration_disabled"
    spans = ("lab_pcpu", k.cpus[0].pcpu, of_cpu), ("task_struct", k.cpus[0].task, of_task)
    fields = [(at, k.image.struct(struct).fields[name]) for struct, at, names in spans for name in names]
    size = k.image.struct("pt_regs").size  # the last of the counters' memory is the pt_regs of a link
    return [k.machine.read(at + f.offset, f.size - (size if f.size > size else 0)) for at, f in fields]


def kept(k: Kernel, run) -> dict[str, int]:
    return {r: run.registers[r] for r in (*k.isa.callee_saved, k.isa.sp)}


def check_links(k: Kernel, returned: bool) -> None:
    """At the entry a program is told of the arguments, at the return of the value; each of two links' is; and all is as it was."""
    f = k.function("three_args")
    idle, before = k.call(f, *ARGUMENTS), held(k)
    request = links(returned, observe=True), links(returned, observe=True)
    with k.attached(f, *request) as probes:
        run = k.call(f, *ARGUMENTS)
    found = seen(k)
    assert len(found) == 2 and {one["kprobe"] for one in found} == {p.address for p in probes}
    for one in found:
        assert (one["addr"], one["running"]) == (f.address, returned)
        if returned:
            assert one[k.isa.returns[0]] == idle.value
        else:
            assert [one[r] for r in k.isa.args[:3]] == [*ARGUMENTS]
    assert (run.value, kept(k, run), held(k)) == (idle.value, kept(k, idle), before)


@linked
@ends
def test_a_link_tells_its_program_of_the_function_and_the_registers(place, returned):
    check_links(kernel(*place), returned)


def check_session(k: Kernel) -> None:
    """A session's program runs at both ends, or at the entry alone if it says so; that of a link that is none has no say."""
    f = k.function("two_args")
    verdict, hits = k.image.address("lab_bpf_verdicts"), k.image.address("lab_bpf_hits")
    idle = k.call(f, 5, 7).value
    members = k.image.struct("bpf_prog").fields
    for session, wanted in ((True, (2, 1)), (False, (2, 2))):
        with k.attached(f, Fprobe(exit=True, multi=True)) as (probe,):
            (prog,) = (at for at, name in probe.structs.items() if name.endswith("program"))
            k.machine.write_u64(prog + members["bpf_func"].offset, k.image.address("lab_bpf_modify"))
            if not session:
                k.machine.write(prog + members["expected_attach_type"].offset, bytes(4))
            for said, times in zip((0, 1), wanted, strict=True):
                k.machine.write_u64(verdict, said)
                before = k.machine.read_u64(hits)
                assert k.call(f, 5, 7).value == idle
                assert k.machine.read_u64(hits) - before == times
    k.machine.write_u64(verdict, 0)


@linked
def test_a_session_decides_at_the_entry_whether_it_sees_the_return(place):
    isa, release, _ = place
    if parse(release) >= parse("v6.10" if isa == "x86_64" else "v6.14"):
        check_session(kernel(*place))
    else:
        with pytest.raises(TramplabError, match=r"at the entry or at the return .* has sessions, with one at both, since v6\.1"):
            kernel(*place).attach("two_args", Fprobe(exit=True, multi=True))


@linked
def test_a_link_inside_a_program_is_missed(place):
    k = kernel(*place)
    at = k.cpus[0].pcpu + k.image.struct("lab_pcpu").fields["bpf_prog_active"].offset
    with k.attached(k.function("two_args"), links(False, observe=True)) as (probe,):
        k.machine.write(at, (1).to_bytes(4, "little"))
        run = k.call("two_args", 5, 7)
        (prog,) = (at for at, name in probe.structs.items() if name.endswith("program"))
        missed = k.machine.read_u64(prog + k.image.struct("bpf_prog").fields["misses"].offset)
    active = k.machine.read(at, 4)
    k.machine.write(at, bytes(4))  # other tests have this kernel, too
    assert (run.value, seen(k), missed, active) == (5 * 3 + 7 * 5, [], 1, (1).to_bytes(4, "little"))


@linked
def test_what_a_program_changes_goes_back_where_the_release_says(place):
    """Where a pt_regs is the trampoline's own, always; where it is a copy, since v7.0."""
    isa, release, _ = place
    own = isa == "x86_64" or kernel(*place).features["rethook"] != "fgraph"
    assert changed(kernel(*place)) == (4711 if own or parse(release) >= parse("v7.0") else 50)


def changed(k: Kernel) -> int:
    """What a function returns when a program has written 4711 where the pt_regs has that."""
    value = k.isa.returns[0]

    def change() -> None:
        k.machine.write_u64(k.machine.register(k.isa.args[0]) + 8 * kprobe_abi.slot(k, value), 4711)

    with k.attached(k.function("two_args"), links(True)), k.machine.watching(k.image.address("lab_bpf_count"), change):
        return k.call("two_args", 5, 7).value


@pytest.mark.parametrize(
    ("isa", "release", "register", "bits", "wanted"),
    [
        ("x86_64", "v6.18", "cs", ~0, 0x10),
        ("x86_64", "v6.18", "rflags", 2, 0),
        ("x86_64", "v7.2", "rflags", 2, 2),
        ("arm64", "v6.16", "pstate", ~0, 0),
        ("arm64", "v7.2", "pstate", ~0, 5),
    ],
)
def test_the_pt_regs_says_what_the_releases_does(isa, release, register, bits, wanted):
    """Whether it is the kernel's, and whether hardware saved it (ftrace_partial_regs())."""
    k = kernel(isa, release)
    with k.attached(k.function("two_args"), links(False, observe=True)):
        k.call("two_args", 5, 7)
    (one,) = seen(k)
    field = k.image.struct("pt_regs").fields[{"rflags": "flags"}.get(register, register)]
    assert one["words"][field.offset // 8] & bits == wanted


@every_isa
@pytest.mark.parametrize("release", ["v5.17", "v6.1", "v6.12", "v7.2"])
@pytest.mark.parametrize("breakpoint_", [False, True], ids=["ftrace", "breakpoint"])
def test_a_kretprobes_program_is_given_the_value_and_its_cookie(isa, release, breakpoint_):
    k = kernel(isa, release)
    if not breakpoint_ and not k.features["kprobes_on_ftrace"]:
        pytest.skip("no kprobes through ftrace")
    check_kretprobe(k, breakpoint_)


def check_kretprobe(k: Kernel, breakpoint_: bool) -> None:
    """Its program runs once per call, behind the function; the hit is counted, and all is as it was."""
    f = k.function("three_args")
    idle, before = k.call(f, *ARGUMENTS), held(k)
    hits = k.cpus[0].pcpu + k.image.struct("lab_pcpu").fields["kprobe_nhit"].offset
    first = k.machine.read_u64(hits)
    with k.attached(f, Kretprobe(breakpoint=breakpoint_, untraced=breakpoint_, bpf=True, observe=True)):
        for n in (1, 2):
            run, hit = k.call(f, *ARGUMENTS), k.machine.read_u64(hits)
            (one,) = seen(k)
            assert (one["addr"], one[k.isa.returns[0]], run.value, hit) == (1, idle.value, idle.value, first + n)
            assert (kept(k, run), held(k)) == (kept(k, idle), before)


@every_isa
@pytest.mark.parametrize("release", ["v6.4", "v7.2"])
def test_what_is_made_for_programs_is_given_back(isa, release):
    """When they go, and when they are refused."""
    k = kernel(isa, release)
    guest = k.slowpath.makers[0]._guest

    def now() -> tuple:
        return list(k.heap._free), list(guest.counters._free), list(guest.modules._free)

    requests = [Kretprobe(breakpoint=True, bpf=True), Kprobe(breakpoint=True, bpf=True)]
    if k.features["rethook"]:
        requests += [links(False), links(True)]
    before = now()
    for request in requests:
        with k.attached(k.function("two_args"), request):
            assert now() != before
        assert now() == before
    with pytest.raises(TramplabError, match="heap is full"):
        k.attach(k.function("two_args"), Kretprobe(breakpoint=True, bpf=True, maxactive=100_000))
    assert now() == before
    taken = []
    while len(k.heap._free) and max(size for _, size in k.heap._free) >= 64:
        taken.append(k.heap.take(64))
    for request in requests[2:]:
        with pytest.raises(TramplabError, match="heap is full"):
            k.attach(k.function("two_args"), request)
    for at in taken:
        k.heap.give(at)
    assert now() == before


@pytest.mark.parametrize(
    ("of", "wrong", "said"),
    [
        (Kretprobe, {"bpf": True, "entry": True}, "leave entry="),
        (Kretprobe, {"bpf": True, "watch": True}, "watch="),
        (Kretprobe, {"bpf": True, "data": 8}, "and data= out"),
        (Fprobe, {"multi": True, "bpf": True}, "leave bpf="),
        (Fprobe, {"multi": True, "link": "fregs"}, "link="),
        (Fprobe, {"multi": True, "exit": True, "data": 8}, "data= out"),
    ],
)
def test_options_that_make_no_sense(of, wrong, said):
    with pytest.raises(TramplabError) as e:
        of(**wrong)
    assert said in str(e.value) and "\n" not in str(e.value)


# --- The hooks by name

#: With a program -> the same with a bare handler.
PAIRS = {
    "kprobe-bpf": "kprobe",
    "kretprobe-bpf": "kretprobe",
    "kprobe-brk-bpf": "kprobe-brk",
    "kretprobe-brk-bpf": "kretprobe-brk",
    "kprobe-multi": "fprobe",
    "kretprobe-multi": "fprobe-exit",
    "fprobe-bpf": "fprobe",
}


@every_isa
@pytest.mark.parametrize("release", ["v6.1", "v6.9", "v6.12", "v7.2"])
@pytest.mark.parametrize("name", PAIRS)
def test_a_program_costs_more_than_a_bare_handler_and_the_same_trampoline(isa, release, name):
    """And where a release has no such probe the hook is refused, as the bare one is."""
    features = kernel(isa, release).features
    hook, bare = hooks.get(name), hooks.get(PAIRS[name])
    if not hook.there(features):
        assert name == "fprobe-bpf" or not bare.there(features)
        with pytest.raises(TramplabError, match=f"has no {name} hook"):
            measure.run(isa, name, release)
        return
    mine, other = measure.run(isa, name, release), measure.run(isa, bare.name, release)
    assert mine.value == other.value and "lab_bpf_count" in mine.symbols and "lab_bpf_count" not in other.symbols
    cost = [run.counts.by_component for run in (mine, other)]
    assert cost[0]["trampoline"] == cost[1]["trampoline"]
    assert cost[0]["core"].instructions > cost[1]["core"].instructions + 20


def test_a_list_says_of_what_kind_a_handler_is():
    for name, bare in PAIRS.items():
        assert "BPF program" in hooks.get(name).title and "bare handler" in hooks.get(bare).title


def test_the_programs_of_a_proposal_are_on_return_hooks():
    """No kernel's, and not where fprobes are on the graph tracer; where an override brings return hooks, they are there."""
    assert hooks.hypothetical("fprobe-bpf") and not hooks.hypothetical("kprobe-multi")
    with pytest.raises(TramplabError, match=r"no kernel has it, and the lab makes it on x86_64 v5.18 to v6.13"):
        measure.run("x86_64", "fprobe-bpf", "v6.16")
    assert measure.run("arm64", "fprobe-bpf", "v6.4", rethook="freelist").value == 3


def test_a_link_wants_a_pt_regs():
    """Of return hooks that no kernel had on an ISA without a trampoline that fills one."""
    k = Kernel("arm64", "v6.4", rethook="objpool", meter="count")
    with pytest.raises(TramplabError, match=r"a pt_regs, and arm64 v6.4 .* fprobes have none; arm64 fills one v5.5"):
        k.attach(k.function("one_arg"), links(False))


# --- Mutants

LINK, RUN, EVENT = "core/bpf_multi.c", "include/multi.h", "core/bpf_kprobe.c"
MUTANTS = [
    *of(
        "arm64",
        "v7.2",
        "links",
        LINK,
        ("another beginning", "return (unsigned long)before;", "return (unsigned long)before + 4;"),
        ("no registers made", "LINK(kernel, lab_mark_kernel(ctx))", "LINK(kernel, ctx = lab_link_regs() + 1)"),
    ),
    *of(
        "arm64",
        "v7.2",
        "links",
        RUN,
        ("the context kept", "		current->bpf_ctx = old; \\\n", "		(void)old; \\\n"),
        ("the CPU's guard kept", "	this_pcpu->bpf_prog_active -= 1; \\\n", "	barrier(); \\\n"),
        ("the return not told", "start(ip), regs, 1, data)", "start(ip), regs, 0, data)"),
        ("RCU's read side kept", "		rcu_read_unlock(); \\\n", "		barrier(); \\\n"),
    ),
    *of(
        "arm64",
        "v7.2",
        "changed",
        "include/ways.h",
        ("no value back", "ftrace_regs_set_return_value(fregs, LAB_RETURNED(regs));", ""),
    ),
    *of(
        "x86_64",
        "v6.12",
        "links",
        LINK,
        ("ENDBR not seen", "lab_endbr(instruction) ? ip - 4 : ip", "lab_endbr(instruction) ? ip : ip"),
    ),
    *of(
        "x86_64",
        "v6.12",
        "links",
        RUN,
        ("migration off for good", "#define LINK_MIGRATE_ENABLE() migrate_enable()", "#define LINK_MIGRATE_ENABLE()"),
    ),
    *of(
        "riscv64",
        "v7.2",
        "session",
        RUN,
        ("sessions that cannot decline", "is_kprobe_session(link->link.prog) ? err : 0", "0 * err"),
        ("a link of another program's kind", "prog->type != BPF_PROG_TYPE_KPROBE", "prog->type == BPF_PROG_TYPE_KPROBE"),
    ),
    *of(
        "x86_64",
        "v6.12",
        "session",
        RUN,
        ("links that can decline", "return prog->expected_attach_type == BPF_TRACE_KPROBE_SESSION", "return 1"),
    ),
    *of(
        "riscv64",
        "v7.2",
        "links",
        LINK,
        ("as if the pair began at rec->ip", "return ip - 4;", "return ip;"),
    ),
    *of("riscv64", "v7.2", "links", RUN, ("another link", ".link = link, .entry_ip", ".link = 0, .entry_ip")),
    *of("riscv64", "v7.2", "links", "riscv64/memcpy.S", ("every second word", "	addi	a1, a1, 4\n", "	addi	a1, a1, 8\n")),
    *of(
        "x86_64",
        "v7.2",
        "kretprobe",
        EVENT,
        ("hits not counted", "	lab_count_hit(tk);\n	flags", "	flags"),
        ("events that perf has not opened", "	if (flags & TP_FLAG_PROFILE)\n		kretprobe", "	if (!flags)\n		kretprobe"),
        ("no program", "!trace_call_bpf(call, regs))\n		return;", "call)\n		return;"),
    ),
]


def complain(k: Kernel, what: str) -> bool:
    """Does a check find something wrong? what: "links", "session", "changed" or "kretprobe"."""
    try:
        if what == "session":
            check_session(k)
            return False
        if what == "changed":
            return changed(k) != 4711
        if what == "kretprobe":
            check_kretprobe(k, breakpoint_=True)
        else:
            for returned in (False, True):
                check_links(k, returned)
    except (AssertionError, ValueError, GuestFault, StepLimit):
        return True
    return False


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_is_caught(mutant, mutated):
    assert complain(mutated(mutant).kernel, mutant.hook)


@pytest.mark.parametrize("mutant", {(m.place, m.hook): m for m in MUTANTS}.values(), ids=str)
def test_what_is_whole_passes(mutant):
    assert not complain(kernel(mutant.isa, mutant.release), mutant.hook)
