"""BPF programs on kretprobes and on links of kprobe_multi: what they are given, and what a call keeps."""

import functools

import pytest

from support.abi import kprobe_abi
from support.mutants.program_mutants import MUTANTS
from tramplab import Fprobe, GuestFault, Kernel, Kprobe, Kretprobe, StepLimit, TramplabError
from tramplab.ftrace.releases import parse
from tramplab.isa import ISAS

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


# --- Mutants


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
