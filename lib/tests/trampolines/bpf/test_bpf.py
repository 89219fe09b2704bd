"""BPF trampolines: how they are attached, what guards their programs, what goes wrong and says so."""

import dataclasses
import itertools

import pytest

from support.abi import abi_calls
from tramplab import Bpf, Direct, Kernel, Ops, TramplabError
from tramplab.estimate.returnstack import replay
from tramplab.isa import ISAS
from tramplab.isa.arm64 import BL, B
from tramplab.isa.x86_64 import CALL, ENDBR64, JMP
from tramplab.lab import hooks
from tramplab.trampolines.bpf.request import MOST_PROGRAMS

CAN = [(isa, r) for isa, releases in (("x86_64", ("v5.19", "v6.18")), ("riscv64", ("v6.12",))) for r in releases]
CAN += [(isa, "v7.2") for isa in ISAS]


def hits(kernel: Kernel) -> int:
    return kernel.machine.read_u64(kernel.image.address("lab_bpf_hits"))


def text(kernel: Kernel) -> list[bytes]:
    return [kernel.machine.read(s.address, s.size) for s in kernel.image.segments if s.executable]


@pytest.mark.parametrize("isa, release", CAN)
def test_programs_run_in_order_and_everything_is_given_back(isa, release):
    """The components tell the order; a hundred trampolines one after the other fit into memory that holds few."""
    k = Kernel(isa, release)
    f, before = k.function("three_args"), text(k)
    for _ in range(100):
        with k.attached(f, Bpf(fentry=3, fexit=2, fmod_ret=1)):
            pass
    assert text(k) == before
    with k.attached(f, Bpf(fentry=1, fexit=1)) as (ops,):
        run = k.call(f, 1, 2, 3)
        way = [run.symbol_of(s.pc) for s in run.steps]
        order = [w for i, w in enumerate(way) if w != "bpf_trampoline[0]" and (not i or way[i - 1] != w)]
    program = ["__bpf_prog_enter_recur", "lab_bpf_count", "__bpf_prog_exit_recur"]
    inside = [w for w in order if w in ("__bpf_tramp_enter", "__bpf_tramp_exit", *program)]
    inside = [w for i, w in enumerate(inside) if not i or inside[i - 1] != w]  # what they call themselves left out
    assert inside == ["__bpf_tramp_enter", *program, *program, "__bpf_tramp_exit"]
    assert order.index("__bpf_prog_exit_recur") < len(order) - 1 - order[::-1].index("three_args")
    assert run.value == 34 and hits(k) == 2 and not k.names()(ops.generated[0].address)


@pytest.mark.parametrize("isa, release", CAN)
@pytest.mark.parametrize("kind", ["fentry", "fmod_ret", "fexit"])
def test_a_program_that_is_active_already_is_not_run_again(isa, release, kind):
    """As if the traced function were called from inside the program: it is passed over and the miss is counted."""
    k = Kernel(isa, release)
    f = k.function("two_args")
    with k.attached(f, Bpf(**{kind: 1})):
        counts = k.image.struct("lab_pcpu").fields["counts"]
        active = k.image.address("lab_boot_pcpu") + counts.offset + 4  # the image's counter comes first
        k.machine.write(active, (1).to_bytes(4, "little"))
        assert k.call(f, 1, 2).value == 13 and hits(k) == 0
        assert int.from_bytes(k.machine.read(active, 4), "little") == 1
        k.machine.write(active, bytes(4))
        assert k.call(f, 1, 2).value == 13 and hits(k) == 1


@pytest.mark.parametrize("isa, release", CAN)
def test_it_shares_its_function_with_ops(isa, release):
    """A BPF trampoline is a direct call: with an ops beside it both run, the programs last, whichever came first."""
    for requests in ((Bpf(fexit=1), Ops()), (Ops(), Bpf(fexit=1))):
        k = Kernel(isa, release)
        with k.attached(k.function("three_args"), *requests):
            run = k.call("three_args", 1, 2, 3)
            assert run.value == 34 and hits(k) == 1 and sorted(run.hits) == [0, 1]
            ran = [run.symbol_of(s.pc) for s in run.steps if run.component_of(s.pc) == "callback"]
            assert ran.index("lab_callback") < ran.index("lab_bpf_count")


@pytest.mark.parametrize("release, opcode", [("v6.18", CALL), ("v6.19", JMP), ("v7.2", JMP)])
def test_x86_jumps_to_a_trampoline_that_calls_the_function(release, opcode):
    """From v6.19 the site jumps; before, the return that skips the function leaves every caller with the wrong prediction."""
    k = Kernel("x86_64", release)
    f = k.function("two_args")
    with k.attached(f, Bpf(fexit=1)) as (ops,):
        assert k.machine.read(f.site.ip, 5) == opcode.encode(f.site.ip, ops.generated[0].address)
        missed = replay(k.call(f, 1, 2))
        assert (missed.own, missed.outer) == ((1, 8) if opcode is CALL else (0, 0))
    with k.attached(f, Bpf(fentry=1)) as (ops,):
        assert k.machine.read(f.site.ip, 5) == CALL.encode(f.site.ip, ops.generated[0].address)


@pytest.mark.parametrize(
    "isa, level, far, missed",
    [
        ("arm64", "", False, (2, 8)),
        ("arm64", "jump", False, (0, 0)),
        ("arm64", "pop", False, (1, 0)),
        ("arm64", "jump", True, (1, 8)),
        ("arm64", "pop", True, (1, 0)),
        ("riscv64", "", True, (1, 8)),
        ("riscv64", "pop", True, (0, 0)),
    ],
)
def test_what_no_kernel_has_keeps_calls_and_returns_in_pairs(isa, level, far, missed):
    """The caller, the function and the program see what they see as it is; arm64's site jumps only to what it reaches."""
    k = Kernel(isa)
    f, request = k.function("three_args"), Bpf(fexit=1, level=level, kaslr=far)
    site = f.site.entry, f.site.body - f.site.entry
    before = k.machine.read(*site)
    with k.attached(f, request) as (ops,):
        run, base = k.call(f, 1, 2, 3), ops.generated[0].address
        assert run.value == 34 and hits(k) == 1
        found = replay(run)
        assert (found.own, found.outer) == missed
        if isa == "arm64":
            branch, to = (B, base) if level == "jump" and not far else (BL, k.image.address("ftrace_caller") if far else base)
            assert k.machine.read(f.site.ip, 4) == branch.encode(f.site.ip, to)
    assert k.machine.read(*site) == before
    with k.attached(f, request):
        assert k.call(f, 1, 2, 3).value == 34


@pytest.mark.parametrize("isa", ISAS)
def test_the_trampoline_saves_what_the_function_takes(isa):
    """Each argument in a register adds one store and one load on every ISA, and nothing else."""
    k = Kernel(isa)
    names, sizes = "no_args one_arg two_args three_args four_args five_args six_args seven_args eight_args".split(), []
    for args, name in enumerate(names[: len(ISAS[isa].args) + 1]):
        with k.attached(k.function(name), Bpf(fentry=1)):
            c = k.call(name, *range(args)).counts.by_component["trampoline"]
        sizes.append((c.instructions, c.loads, c.stores))
    steps = {tuple(b - a for a, b in zip(x, y, strict=True)) for x, y in itertools.pairwise(sizes)}
    assert steps == {(2, 1, 1)}


@pytest.mark.parametrize("isa", ISAS)
def test_each_argument_on_the_stack_is_loaded_and_stored_and_for_the_function_once_more(isa):
    """No register comes back for it before the function; where the trampoline calls the function, another copy is made."""
    k = Kernel(isa)
    names = "eight_args nine_args ten_args eleven_args twelve_args".split()
    for request, step in ((Bpf(fentry=1), (2, 1, 1)), (Bpf(fexit=1), (4, 2, 2))):
        sizes = []
        for args, name in enumerate(names, 8):
            with k.attached(k.function(name), dataclasses.replace(request)):
                c = k.call(name, *range(args)).counts.by_component["trampoline"]
            sizes.append((c.instructions, c.loads, c.stores))
        assert {tuple(b - a for a, b in zip(x, y, strict=True)) for x, y in itertools.pairwise(sizes)} == {step}


@pytest.mark.parametrize(
    "isa, function, plain, words, cleared",
    [("x86_64", "int_seventh", "seven_args", 7, 1), ("arm64", "uneven_ninth", "eleven_args", 11, 4)],
)
def test_what_is_no_argument_of_a_word_on_the_stack_is_cleared(isa, function, plain, words, cleared):
    """x86-64 clears half of the only word there by a store; arm64 each that is not full by two shifts."""
    k, counts = Kernel(isa), []
    for name in (plain, function):
        with k.attached(k.function(name), Bpf(fentry=1)):
            counts.append(k.call(name, *range(words)).counts.by_component["trampoline"])
    assert counts[1].instructions - counts[0].instructions == cleared
    assert counts[1].stores - counts[0].stores == (isa == "x86_64")


@pytest.mark.parametrize("release", ["v6.12", "v7.2"])
@pytest.mark.parametrize("name", ["seven_args", "eight_args", "nine_args", "ten_args", "struct_after_five"])
def test_x86_calls_a_function_with_words_on_the_stack_with_the_stack_aligned(release, name):
    """Whether the site calls the trampoline or jumps to it; a function without such words finds it as it happens to be."""
    k = Kernel("x86_64", release)
    f, seen = k.function(name), []
    k.machine.watch(f.site.body, lambda: seen.append(k.machine.register("rsp") % 16))
    with k.attached(f, Bpf(fexit=1)):
        k.call(f, *range(10))
    assert seen == [8]


def test_on_riscv_the_site_reaches_it_only_through_ftrace_caller_since_the_auipc_is_fixed():
    for release, through in (("v6.12", False), ("v7.2", True)):
        k = Kernel("riscv64", release)
        with k.attached(k.function("one_arg"), Bpf(fentry=1)):
            run = k.call("one_arg", 1)
        assert ("ftrace_caller" in {run.symbol_of(s.pc) for s in run.steps}) == through


# what differs by release


def ran(isa: str, release: str, **programs) -> tuple[set[str], set[str]]:
    """The symbols that a call with programs executes, and the mnemonics of BPF's enter function."""
    k = Kernel(isa, release)
    with k.attached(k.function("two_args"), Bpf(**programs)):
        run = k.call("two_args", 1, 2)
    inside = {run.instructions[s.pc].mnemonic for s in run.steps if run.symbol_of(s.pc) == "__bpf_prog_enter_recur"}
    return run.symbols, inside


@pytest.mark.parametrize("isa", ISAS)
def test_migration_is_turned_off_by_a_call_up_to_v6_17(isa):
    assert {"migrate_disable", "migrate_enable"} <= ran(isa, "v6.17", fentry=1)[0]
    assert not [name for name in ran(isa, "v6.18", fentry=1)[0] if name.startswith("migrate_")]


@pytest.mark.parametrize("isa", ISAS)
def test_only_a_reader_that_can_be_preempted_is_counted_by_calls(isa):
    for release in ("v6.12", "v7.2"):
        assert ("__rcu_read_lock" in ran(isa, release, fexit=1)[0]) == (isa == "x86_64")


def test_arm64_counts_entries_without_exclusives_since_v7_0():
    for release, exclusives in (("v6.19", {"ldxr", "stxr"}), ("v7.0", set())):
        assert ran("arm64", release, fentry=1)[1] & {"ldxr", "stxr"} == exclusives


@pytest.mark.parametrize(("release", "pad"), [("v6.1", False), ("v6.2", True), ("v6.7", True), ("v6.8", False), ("v7.2", False)])
def test_x86_has_a_landing_pad_while_every_trampoline_had_one(release, pad):
    k = Kernel("x86_64", release)
    with k.attached(k.function("two_args"), Bpf(fentry=1)) as (ops,):
        assert (k.machine.read(ops.generated[0].address, 4) == ENDBR64) == pad


def test_what_the_lab_does_not_know_the_shape_of_is_refused():
    """BPF is older than what the lab has of it; called bare, its programs need nothing that it would have to know."""
    k = Kernel("x86_64", "v5.18")
    f = k.function("two_args")
    with pytest.raises(TramplabError, match=r"does not know what guards BPF programs in x86_64 v5\.18, only since v5\.19\."):
        k.attach(f, Bpf(fentry=1))
    with k.attached(f, Bpf(fentry=1, guarded=False)):
        assert k.call(f, 1, 2).value == 13 and hits(k) == 1
    with pytest.raises(TramplabError, match=r"not build the bpf-fexit hook of x86_64 v5\.18; .* since v5\.5, .* since v5\.19\."):
        hooks.require(hooks.get("bpf-fexit"), k.features)


# bad input


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Bpf(), "a BPF trampoline needs at least one program"),
        (lambda: Bpf(fentry=-1, fexit=3), "a BPF trampoline needs at least one program"),
        (lambda: Bpf(fentry=1, level="pop"), "level= is for fexit and fmod_ret programs, one of jump, pop."),
        (lambda: Bpf(fexit=1, level="push"), "level= is for fexit and fmod_ret programs, one of jump, pop."),
        (lambda: Bpf(fentry=20, fexit=19), f"39 programs are too many for one trampoline; a function can have {MOST_PROGRAMS}."),
        (lambda: hooks.requests(hooks.get("bpf-fexit"), 39), "39 callbacks cannot be attached by bpf-fexit; choose 1 to 38."),
    ],
)
def test_impossible_requests(make, message):
    with pytest.raises(TramplabError) as e:
        make()
    assert str(e.value).startswith(message)


@pytest.mark.parametrize(
    "isa, request_, message",
    [
        ("x86_64", Bpf(fexit=1, level="jump"), "x86_64 has no trampoline with level='jump': since v6.19 its kernels jump to one"),
        ("riscv64", Bpf(fexit=1, level="jump"), "riscv64 has no trampoline with level='jump': the site's JALR goes by t0"),
    ],
)
def test_what_an_isa_does_not_have_is_refused(isa, request_, message):
    k = Kernel(isa)
    before = text(k)
    with pytest.raises(TramplabError) as e:
        k.attach(k.function("three_args"), request_)
    assert str(e.value).startswith(message) and not k.slowpath.ops and text(k) == before


@pytest.mark.parametrize("isa", ISAS)
def test_refused_programs_leave_nothing(isa):
    """Two functions at once, a second direct call, a trampoline beyond a page: one sentence, and all is as before."""
    k = Kernel(isa)
    f, before = k.function("eight_args"), text(k)
    for requests, message in (
        ((Bpf(fentry=1, filter=("one_arg", "two_args")),), "a BPF trampoline is made for one function; 2 were named."),
        ((Bpf(fentry=1), Bpf(fexit=1)), "eight_args has a direct call already; a function can have one."),
        ((Direct(), Bpf(fexit=1)), "eight_args has a direct call already; a function can have one."),
    ):
        with pytest.raises(TramplabError) as e:
            k.attach(f, *requests)
        assert str(e.value) == message and not k.slowpath.ops and text(k) == before
    # counters of this CPU: a count for the image and one for each program
    attached = [k.attach(k.function(n), Bpf(fentry=38))[0] for n in k.functions[:6]]
    with pytest.raises(TramplabError, match="per-CPU memory is full: detach some BPF programs first"):
        k.attach(f, Bpf(fentry=38))
    k.detach(*attached)
    assert text(k) == before and k.call(f, *range(8)).value == abi_calls.weigh(*range(8))


@pytest.mark.parametrize("isa", ISAS)
def test_38_programs_fit_on_every_isa(isa):
    k = Kernel(isa)
    with k.attached(k.function("one_arg"), Bpf(fentry=MOST_PROGRAMS)) as (ops,):
        assert k.call("one_arg", 1).value == 3 and hits(k) == MOST_PROGRAMS and ops.generated[0].size <= 4096


def test_a_trampoline_larger_than_a_page_is_refused():
    """arm64 takes four instructions for each call, so that 38 fmod_ret programs are too much there."""
    k = Kernel("arm64")
    message = f"for {MOST_PROGRAMS} programs on eight_args would have .* bytes; at most 4096 are allowed: attach fewer"
    with pytest.raises(TramplabError, match=message):
        k.attach(k.function("eight_args"), Bpf(fmod_ret=MOST_PROGRAMS))
    assert not k.slowpath.ops and k.call("eight_args", *range(8)).value == abi_calls.weigh(*range(8))
