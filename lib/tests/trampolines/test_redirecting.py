"""Ops that change where a function goes on: every function, every save set, alone and in company; and who may not share."""

import pytest

from support.abi import abi, abi_calls, abi_places
from tramplab import Bpf, Direct, Kernel, Ops, StepLimit, TramplabError
from tramplab.estimate.returnstack import replay
from tramplab.ftrace.layout import private_of
from tramplab.isa import ISAS
from tramplab.lab.measure import FUNCTIONS
from tramplab.lab.patched_calls import CALLS, passed, result
from tramplab.trampolines.plain.request import SETS_IP

every_isa = pytest.mark.parametrize("isa", ISAS)
#: A kernel of every kind of trampoline that lets an ip be changed. On riscv64 up to v6.2 a function cannot be left for
#: another one, see the last test.
PLACES = [
    (isa, release)
    for isa, releases in (
        ("x86_64", ("v5.17", "v6.4", "v7.2")),
        ("arm64", ("v5.17", "v6.1", "v6.2", "v6.3", "v7.2")),
        ("riscv64", ("v6.4", "v6.8", "v6.12", "v6.16", "v7.2")),
    )
    for release in releases
]
WEIGHTS = (29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73)


def sets(kernel: Kernel) -> list[str]:
    """The save sets with which a release lets the ip be changed."""
    had = kernel.features
    return [s for s in SETS_IP if had["regs" if s == "regs" else "args"]]


def patch(name: str, save: str = "args", **changes) -> Ops:
    return Ops(**{"save": save, "callback": "lab_livepatch", "go_to": f"new_{name}", "filter": (name,), **changes})


@pytest.mark.parametrize(("isa", "release"), PLACES)
def test_every_function_can_be_replaced(isa, release):
    """By every save set that the release has: the caller gets what the replacement gives, and afterwards the old result."""
    k = Kernel(isa, release)
    assert sets(k)
    for name in CALLS:
        made = passed(k, name)
        old = result(k, made, k.function(name).address)
        new = result(k, made, k.image.address(f"new_{name}"))
        assert old != new
        for save in sets(k):
            with k.attached(None, patch(name, save)):
                assert result(k, made, k.function(name).address) == new, (name, save)
            assert result(k, made, k.function(name).address) == old


@every_isa
def test_a_live_patch_asks_what_the_task_is_to_run(isa):
    """One that is not yet moved runs the function as it was; a replacement that is the function itself changes nothing."""
    k = Kernel(isa)
    old, new = k.call("two_args", 7, 9).value, 29 * 7 + 31 * 9 + (1 << 40)
    state = k.cpus[0].task + k.image.struct("task_struct").fields["patch_state"].offset
    with k.attached(None, patch("two_args")) as (ops,):
        fields, at = k.image.struct("lab_private").fields, private_of(k.image, ops.index)
        for transition, patched, nop, wanted in ((0, 0, 0, new), (1, 0, 0, old), (1, 1, 0, new), (0, 0, 1, old)):
            places = at + fields["transition"].offset, at + fields["nop"].offset, state
            for where, value in zip(places, (transition, nop, patched), strict=True):
                k.machine.write(where, bytes([value]))
            run = k.call("two_args", 7, 9)
            assert run.value == wanted and "lab_livepatch" in run.symbols, (transition, patched, nop)
        k.machine.write(state, bytes(1))


@every_isa
def test_arguments_arrive_as_they_were(isa):
    """Computed by hand, with none to twelve arguments, in every register and on the stack."""
    k = Kernel(isa)
    for count, name in enumerate(FUNCTIONS):
        arguments = range(7, 7 + count)
        for save in sets(k):
            with k.attached(None, patch(name, save)):
                wanted = sum(w * a for w, a in zip(WEIGHTS, arguments, strict=False)) + (1 << 40)
                run = k.call(name, *arguments)
                assert run.value == wanted + (count == 0) and run.hits == (1,)  # lab_sink is 1


@every_isa
@pytest.mark.parametrize("save", ["ip", "ip+sp", "own-args", "own-regs"])
def test_a_replaced_call_keeps_the_callers_registers(isa, save):
    """The new function is entered at its first byte with everything as at the old one's."""
    lab = abi.Lab(abi_places.Place(isa, "v7.2"))
    m, f = lab.machine, lab.kernel.function("four_args")
    with lab.kernel.attached(None, patch("four_args", save)):
        hooked = abi.Hooked(lab, save, ())
        for seed in range(1, 20):
            state = hooked.draw(seed, "four_args")
            m.set_registers({**state.registers, lab.isa.sp: state.sp})
            target = lab.kernel.image.address("new_four_args")
            m.poke(target, m.read(target, 4))  # what was translated for one end of a run must not serve another
            seen = m.run(f.address, target).registers
            kept = {
                *lab.isa.args,
                lab.isa.struct_return,
                *lab.isa.callee_saved,
                *([lab.isa.link] if lab.isa.link else []),
            }
            assert {r: seen[r] for r in kept} == {r: state.registers[r] for r in kept}
            assert seen[lab.isa.sp] == state.sp
            m.poke(target, m.read(target, 4))
            assert m.run(target, m.return_to).registers[lab.isa.returns[0]] == (
                sum(w * a for w, a in zip(WEIGHTS, state.call.args, strict=False)) + (1 << 40) & abi_calls.MASK
            )


@every_isa
def test_one_traced_function_for_another(isa):
    """A replacement can be traced itself: it is entered in front of its patch site, and its own ops sees the call."""
    k = Kernel(isa)
    with k.attached(None, patch("tail_call", "ip", go_to="two_args"), Ops(filter=("two_args",))):
        run = k.call("tail_call", 10, 1)
    assert run.value == 10 * 3 + 1 * 5 and run.hits == (1, 1)


@every_isa
@pytest.mark.parametrize("save", ["ip", "own-args", "args"])
def test_beside_another_ops_the_common_trampoline_serves(isa, save):
    """Both callbacks run and the ip is changed all the same; what tells so is the trampoline that runs."""
    k = Kernel(isa)
    for other in (Ops(), Ops(save="live")):
        with k.attached(k.function("two_args"), patch("two_args", save), other):
            run = k.call("two_args", 1, 2)
            assert run.value == 29 + 62 + (1 << 40) and run.hits == (1, 1)
            assert "ftrace_ops_list_func" in {run.symbol_of(s.pc) for s in run.steps}


@every_isa
@pytest.mark.parametrize("callback", ["lab_consumer", "lab_consumer_argument", "lab_consumer_register"])
def test_a_consumer_of_registers_leaves_the_ip_as_it_was(isa, callback):
    """Under every save set, and beside live patching: it changes nothing, whatever it reads."""
    k = Kernel(isa)
    for save in ("live", "clobbered", *sets(k)):
        with k.attached(k.function("two_args"), Ops(save=save, callback=callback)):
            assert k.call("two_args", 1, 2).value == 13
    for order in ((0, 1), (1, 0)):
        both = [Ops(callback=callback), patch("two_args")]
        with k.attached(k.function("two_args"), *(both[n] for n in order)):
            run = k.call("two_args", 1, 2)
            assert run.value == 29 + 62 + (1 << 40) and run.hits == (1, 1)


@every_isa
def test_a_function_called_instead_comes_back(isa):
    """Once, to the place that counts, and then to the caller; not where the pushed word moves arguments on the stack."""
    k = Kernel(isa)
    returns = k.image.address("lab_returns")
    for name in CALLS:
        made = passed(k, name)
        new, before = result(k, made, k.image.address(f"new_{name}")), k.machine.read_u64(returns)
        with k.attached(None, patch(name, "ip+sp", callback="lab_call_instead")):
            seen = result(k, made, k.function(name).address)
        assert k.machine.read_u64(returns) == before + 1
        assert (seen == new) == (isa != "x86_64" or name not in ("seven_args", "eight_args"))


@every_isa
@pytest.mark.parametrize("save", ["ip", "args", "own-regs"])
def test_the_return_that_leads_elsewhere_is_mispredicted(isa, save):
    """That one, and no other: the caller's return address is still on top."""
    k = Kernel(isa)
    with k.attached(None, patch("two_args", save)):
        replayed = replay(k.call("two_args", 1, 2))
    assert (replayed.own, replayed.outer) == (1, 0)
    assert replayed.where[0].place.startswith(("ftrace_trampoline[0]", "ftrace_caller"))


# -- who may not


@pytest.mark.parametrize(("isa", "release"), PLACES)
def test_only_one_ops_may_change_the_ip(isa, release):
    """A second one is refused and leaves nothing; with the first gone it may. The record says who is there."""
    k = Kernel(isa, release)
    save, record = sets(k)[0], k.slowpath.records["two_args"]
    with k.attached(None, patch("two_args", save)):
        assert "IPMODIFY" in record_flags(record)
        steps, flags = len(k.slowpath.ops), record.flags
        with pytest.raises(TramplabError, match=r"changes the ip of two_args already; only one may \(-EBUSY\): detach"):
            k.attach(None, patch("two_args", save))
        with pytest.raises(TramplabError, match="changes the ip of two_args already"):
            k.attach(None, patch("three_args", save, filter=("one_arg", "two_args")))
        assert (len(k.slowpath.ops), record.flags) == (steps, flags)
        with k.attached(None, patch("three_args", save)):
            assert k.call("three_args", 1, 2, 3).value == 29 + 62 + 111 + (1 << 40)
    assert not record.has("IPMODIFY") and record.count == 0
    with k.attached(None, patch("two_args", save)):
        assert k.call("two_args", 1, 2).value == 29 + 62 + (1 << 40)


def record_flags(record) -> tuple[str, ...]:
    return tuple(name for name in ("IPMODIFY", "DIRECT") if record.has(name))


@pytest.mark.parametrize(
    ("isa", "release"), [("x86_64", "v5.17"), ("x86_64", "v7.2"), ("arm64", "v6.4"), ("riscv64", "v6.16")]
)
def test_a_direct_call_that_is_not_asked_does_not_share_with_it(isa, release):
    k = Kernel(isa, release)
    f = k.function("two_args")
    for first, second in ((patch("two_args"), Direct()), (Direct(), patch("two_args"))):
        with k.attached(f, first), pytest.raises(TramplabError, match="two_args cannot have both a direct call and"):
            k.attach(f, second)
        assert not k.slowpath.ops and not record_flags(k.slowpath.records["two_args"])


@pytest.mark.parametrize(("release", "overrides"), [("v5.17", {}), ("v5.19", {}), ("v6.1", {"direct_shares": False})])
def test_up_to_v5_19_not_even_bpf_is_asked(release, overrides):
    k = Kernel("x86_64", release, **overrides)
    f = k.function("two_args")
    program = Bpf(fentry=1, guarded=bool(k.features["bpf"]))
    for first, second in ((patch("two_args"), program), (program, patch("two_args"))):
        with k.attached(f, first), pytest.raises(TramplabError, match=r"cannot have both .* \(-EBUSY\), unless .* since v6.0"):
            k.attach(f, second)
        assert not k.slowpath.ops


@every_isa
def test_who_changes_the_stack_is_alone(isa, monkeypatch):
    """The common trampoline puts sp back as it was, so the word that was pushed would be lost."""
    k = Kernel(isa)
    f, alone = k.function("two_args"), patch("two_args", "ip+sp", callback="lab_call_instead")
    for first, second in ((alone, Ops()), (Ops(), alone)):
        with k.attached(f, first), pytest.raises(TramplabError, match="changes the stack must be alone on two_args"):
            k.attach(f, second)
    assert not k.slowpath.ops
    monkeypatch.setattr(k.slowpath, "_reaches", lambda *_: False)
    with pytest.raises(TramplabError, match="site of two_args cannot reach the trampoline that restores sp"):
        k.attach(f, alone)
    assert not k.slowpath.ops
    monkeypatch.undo()
    with k.attached(f, alone):
        assert k.call(f, 1, 2).value == 29 + 62 + (1 << 40)


def test_requests_that_make_no_sense_are_refused():
    k = Kernel("arm64")
    with pytest.raises(
        TramplabError, match="changes the ip is for particular functions: give it a filter, and no notrace"
    ):
        k.attach(None, patch("two_args", filter=()))
    with pytest.raises(TramplabError, match="give it a filter, and no notrace"):
        k.attach(None, patch("two_args", notrace=("one_arg",)))
    for wrong in ({"go_to": ""}, {"callback": "lab_callback"}):
        with pytest.raises(TramplabError, match="go_to= belongs to the callbacks lab_livepatch, lab_redirect, lab_call_instead"):
            patch("two_args", **wrong)
    for save in ("live", "clobbered"):
        with pytest.raises(
            TramplabError, match=f"cannot change what save='{save}' does not restore; use args, regs, ip"
        ):
            patch("two_args", save)
    with pytest.raises(TramplabError, match=r"cannot change what save=.ip. does not restore; use ip\+sp"):
        patch("two_args", "ip", callback="lab_call_instead")
    with pytest.raises(TramplabError, match="symbol in the arm64 guest 'new_too_args'; did you mean new_two_args"):
        k.attach(None, patch("two_args", go_to="new_too_args"))
    assert not k.slowpath.ops


@pytest.mark.parametrize(("isa", "release"), [("arm64", "v6.1"), ("riscv64", "v6.4")])
def test_without_ftrace_regs_it_takes_all_registers(isa, release):
    k = Kernel(isa, release)
    with pytest.raises(TramplabError, match=f"{isa} {release} lets only an ops with save='regs' change the ip"):
        k.attach(None, patch("two_args"))


def test_the_16_byte_site_puts_the_return_address_back_itself():
    """So a function that is entered elsewhere is entered without one: it returns to its own first byte, for ever."""
    k = Kernel("riscv64", "v6.1")
    with k.attached(None, patch("two_args", "regs")), pytest.raises(StepLimit, match="goes round in new_two_args"):
        k.call("two_args", 1, 2, budget=5_000)
