"""BPF's direct calls beside an ops that changes the ip (since v6.0): who runs, where the function goes on, and what is left."""

import pytest

from support.abi import abi_places, bpf_abi
from tramplab import Bpf, Kernel, Ops, TramplabError
from tramplab.isa import ISAS
from tramplab.lab.patched_calls import CALLS, passed, result

#: A kernel of every way to find a direct call's target and to leave through it.
PLACES = [
    *(("x86_64", r) for r in ("v6.0", "v6.1", "v6.4", "v6.16", "v6.19", "v7.2")),
    *(("arm64", r) for r in ("v6.4", "v7.2")),
    *(("riscv64", r) for r in ("v6.8", "v6.12", "v6.16", "v7.2")),
]
every_place = pytest.mark.parametrize(("isa", "release"), PLACES)
#: Where the JIT makes trampolines that call the function for such company.
CALLING = [(isa, release) for isa, release in PLACES if isa != "riscv64"]


def test_a_trampoline_that_arm64_jumps_to_has_no_way_back_to_call():
    k = Kernel("arm64")
    for both in orders(k, "two_args", fexit=1, level="jump"):
        with pytest.raises(TramplabError, match="that calls two_args cannot share it with an ops that changes the ip on arm64"):
            k.attach(None, *both)
        assert not k.slowpath.ops


def functions(isa: str, release: str) -> list[str]:
    """Those that can have BPF programs."""
    return [name for name in CALLS if name in bpf_abi.taken(abi_places.Place(isa, release))]


def patch(kernel: Kernel, name: str) -> Ops:
    save = "args" if kernel.features["args"] else "regs"
    return Ops(save=save, callback="lab_livepatch", go_to=f"new_{name}", filter=(name,))


def orders(kernel: Kernel, name: str, **programs) -> list[tuple]:
    """Live patching and the programs, and the other way round."""
    return [(patch(kernel, name), Bpf(filter=(name,), **programs)), (Bpf(filter=(name,), **programs), patch(kernel, name))]


def goes_to(kernel: Kernel, name: str, *programs: dict) -> None:
    """In both orders every call gives what the replacement gives, and each program runs once."""
    made, machine = passed(kernel, name), kernel.machine
    new = result(kernel, made, kernel.image.address(f"new_{name}"))
    hits = kernel.image.address("lab_bpf_hits")
    for asked in programs:
        for both in orders(kernel, name, **asked):
            before = machine.read_u64(hits)
            with kernel.attached(None, *both):
                assert result(kernel, made, kernel.function(name).address) == new, (name, both)
            assert machine.read_u64(hits) == before + sum(asked.values()), (name, both)


@every_place
def test_fentry_programs_share_every_function(isa, release):
    kernel = Kernel(isa, release, meter="count")
    for name in functions(isa, release):
        goes_to(kernel, name, {"fentry": 1}, {"fentry": 2})


@pytest.mark.parametrize(("isa", "release"), CALLING)
def test_a_trampoline_that_calls_the_function_calls_the_replacement(isa, release):
    kernel = Kernel(isa, release, meter="count")
    for name in functions(isa, release):
        goes_to(kernel, name, {"fexit": 1}, {"fmod_ret": 1}, {"fentry": 1, "fmod_ret": 1, "fexit": 1})


@every_place
def test_the_program_runs_behind_live_patching_whoever_came_first(isa, release):
    """The callback of a direct call only leaves its target, which the common trampoline goes to when all have run."""
    kernel = Kernel(isa, release)
    for both in orders(kernel, "two_args", fentry=1):
        with kernel.attached(None, *both):
            run = kernel.call("two_args", 1, 2)
        ran = dict.fromkeys(run.symbol_of(s.pc).split("+")[0] for s in run.steps)  # in the order of their first instruction
        wanted = ["lab_livepatch", "lab_bpf_count", "new_two_args"]
        assert [name for name in ran if name in wanted] == wanted


@every_place
def test_the_program_sees_the_arguments_of_the_call(isa, release):
    kernel = Kernel(isa, release)
    seen, count = kernel.image.address("lab_bpf_seen"), kernel.image.address("lab_bpf_seen_count")
    words = kernel.image.struct("lab_bpf_seen").fields["words"].offset
    for both in orders(kernel, "three_args", fentry=1, observe=True):
        kernel.machine.write_u64(count, 0)
        with kernel.attached(None, *both):
            assert kernel.call("three_args", 7, 8, 9).value == 29 * 7 + 31 * 8 + 37 * 9 + (1 << 40)
        assert kernel.machine.read_u64(count) == 1
        assert [kernel.machine.read_u64(seen + words + 8 * n) for n in range(3)] == [7, 8, 9]


@pytest.mark.parametrize("release", ["v6.8", "v6.16", "v7.2"])
def test_riscv_refuses_a_trampoline_that_calls_the_function(release):
    """-ENOTSUPP, in both orders, and nothing is left of it: what was there goes on as it was."""
    kernel = Kernel("riscv64", release)
    name, made = "two_args", passed(kernel, "two_args")
    old = result(kernel, made, kernel.function(name).address)
    new = result(kernel, made, kernel.image.address(f"new_{name}"))
    for programs in ({"fexit": 1}, {"fmod_ret": 1}):
        for first, second in orders(kernel, name, **programs):
            with kernel.attached(None, first):
                with pytest.raises(TramplabError, match=r"calls two_args cannot share it .* on riscv64: no kernel's JIT"):
                    kernel.attach(None, second)
                assert result(kernel, made, kernel.function(name).address) == (new if isinstance(first, Ops) else old)
            assert result(kernel, made, kernel.function(name).address) == old
    assert not kernel.slowpath.ops


@pytest.mark.parametrize(("isa", "release"), CALLING)
@pytest.mark.parametrize("leaves", [0, 1])
def test_who_is_left_goes_on_alone(isa, release, leaves):
    """After either has left the other does what it does alone; after both the text is the booted one."""
    kernel = Kernel(isa, release, meter="count")
    name = "eight_args" if "eight_args" in functions(isa, release) else "six_args"
    made = passed(kernel, name)
    address, booted = kernel.function(name).address, kernel.machine.read(kernel.function(name).address, 16)
    old, new = result(kernel, made, address), result(kernel, made, kernel.image.address(f"new_{name}"))
    hits = kernel.image.address("lab_bpf_hits")
    for both in orders(kernel, name, fexit=1):
        attached = kernel.attach(None, *both)
        kernel.detach(attached[leaves])
        left = both[1 - leaves]
        before = kernel.machine.read_u64(hits)
        assert result(kernel, made, address) == (new if isinstance(left, Ops) else old)
        assert kernel.machine.read_u64(hits) == before + isinstance(left, Bpf)
        kernel.detach(attached[1 - leaves])
        assert result(kernel, made, address) == old and kernel.machine.read(address, 16) == booted


@pytest.mark.parametrize("release", ["v6.1", "v6.4", "v7.2"])
def test_a_trampoline_that_is_made_anew_gives_the_old_one_back(release):
    """On x86-64 live patching that comes second has a new trampoline made; the old one's room is free again afterwards, and
    where live patching comes to nothing nothing is made."""
    kernel = Kernel("x86_64", release)
    (bpf,) = kernel.attach(None, Bpf(fexit=1, filter=("two_args",)))
    old = bpf.generated[0].address
    (ops,) = kernel.attach(None, patch(kernel, "two_args"))
    assert bpf.generated[0].address != old and bpf.direct == bpf.generated[0].address
    kernel.detach(ops)
    kernel.detach(bpf)
    with kernel.attached(None, Bpf(fexit=1, filter=("two_args",))):
        assert kernel.slowpath.ops[0].generated[0].address == old


@pytest.mark.parametrize("place", ["_direct_table", "_allocate"])
def test_what_fails_leaves_the_direct_call_as_it_was(monkeypatch, place):
    kernel = Kernel("x86_64", "v7.2")
    made = passed(kernel, "two_args")
    (bpf,) = kernel.attach(None, Bpf(fexit=1, filter=("two_args",)))
    before = bpf.direct, bpf.generated, bpf.shared

    def full(*_):
        raise TramplabError("full")

    with monkeypatch.context() as m, pytest.raises(TramplabError, match="full"):
        m.setattr(kernel.slowpath, place, full)
        kernel.attach(None, patch(kernel, "two_args"))
    assert (bpf.direct, bpf.generated, bpf.shared) == before
    old = result(kernel, made, kernel.function("two_args").address)
    with kernel.attached(None, patch(kernel, "two_args")):
        assert result(kernel, made, kernel.function("two_args").address) != old
    kernel.detach(bpf)
    with kernel.attached(None, Bpf(fexit=1, filter=("two_args",))):
        assert kernel.slowpath.ops[0].direct == before[0]


def test_without_the_new_trampoline_the_old_function_would_run(monkeypatch):
    """What the test above finds where a trampoline goes on calling the function itself."""
    from tramplab.trampolines.bpf import x86_64
    from tramplab.trampolines.bpf.plan import Sharing

    monkeypatch.setattr(x86_64, "SHARING", Sharing.AS_IT_IS)
    kernel = Kernel("x86_64", "v6.4")
    with pytest.raises(AssertionError):
        goes_to(kernel, "two_args", {"fexit": 1})


def test_every_isa_is_met():
    assert {isa for isa, _ in PLACES} == set(ISAS)
