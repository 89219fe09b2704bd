"""Which trampoline is picked, whether callbacks notice, which registers are alive: the runs behind claims s1, s3, v2 and v4."""

import pytest

from support.models.accounting_model import Facts
from support.publish.guarded import problem
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab_book.studies.variants.one_callback import dead_registers, dropped_saves
from tramplab_book.studies.variants.switching import choosing, observer, observing, switching


@pytest.fixture(scope="module")
def chosen():
    return choosing.rows()


@pytest.fixture(scope="module")
def observed():
    return observing.rows()


def test_every_state_is_met_on_every_isa_and_release(chosen):
    for isa in ISAS:
        for release in releases.shown():
            had = Facts(isa, release)
            part = chosen[(chosen["isa"] == isa) & (chosen["release"] == release)]
            met = set(zip(part["callbacks"], part["regs"], strict=True))
            wanted = {("none", "no"), ("one", "no"), ("more", "no")}
            assert met == wanted | ({("one", "yes"), ("more", "yes")} if had.regs else set())
            assert len(part) == choosing.STEPS + 1
            assert set(part["direct"]) == ({"none", "near", "far"} if had.direct else {"none"})
            assert set(part["filter"][part["callbacks"] != "none"]) == {"one", "many", "all"}
            assert set(part["filter"][part["callbacks"] == "none"]) == {"none"}
            for callbacks in ("one", "more"):
                there = part[part["callbacks"] == callbacks]
                assert set(there["static"]) == set(there["elsewhere"]) == {"yes", "no"}, (isa, release)
                assert set(there["guarded"]) == {"no", "recursion", "rcu"}, (isa, release)


def test_a_third_variable_is_seen(chosen):
    """A direct call is one, which the claim names, and its reach where that may be either. Rows in which another one decides, or
    none does, are refuted."""
    assert choosing.deciding(chosen) == [("direct",)]
    assert not problem("s1", chosen)
    for name in ("static", "guarded", "filter", "elsewhere"):
        x86 = chosen["trampoline"].where(chosen["isa"] != "x86_64", chosen["trampoline"] + chosen[name])
        assert problem("s1", chosen.assign(trampoline=x86))
    assert problem("s1", chosen.assign(trampoline=chosen["step"].astype(str)))


def test_what_is_called_rests_on_more_and_with_call_ops_on_what_was_before(chosen):
    """With CALL_OPS the ops that left last was asked, which no variable of a state can tell."""
    for (isa, release), part in chosen.groupby(["isa", "release"]):
        assert bool(choosing.deciding(part, "calls")) != Facts(isa, release).call_ops
    assert choosing.numbers(chosen)["history"] == "arm64 v6.4-v7.2 and riscv64 v6.16-v7.2"


def test_combinations_that_do_not_pick_a_trampoline_are_counted_by_isa(chosen):
    assert not problem("what-picks-a-trampoline", chosen)
    n = choosing.numbers(chosen)
    assert n["combinations"] - n["picked"] == sum(n[f"{isa}-unpicked"] for isa in ISAS) == n["arm64-unpicked"]
    other = chosen.assign(trampoline=chosen["trampoline"] + chosen["static"].where(chosen["isa"] == "riscv64", ""))
    assert problem("what-picks-a-trampoline", other).startswith("riscv64-unpicked == 0 is not so: ")


def test_releases_that_choose_alike_are_one_lane(chosen):
    strip = choosing.strip(chosen)
    assert not strip.duplicated(["lane", "step"]).any() and strip.groupby("step").size().nunique() == 1
    newest = chosen[(chosen["isa"] == "riscv64") & (chosen["release"] == releases.LATEST)]
    spoilt = chosen.assign(trampoline=chosen["trampoline"].where(chosen.index != newest.index[-1], "spoilt"))
    assert len(set(choosing.strip(spoilt)["lane"])) == len(set(strip["lane"])) + 1


def test_walks_are_the_same_every_time():
    first, second = (list(choosing.walk("riscv64", "v6.4")) for _ in range(2))
    assert first == second and {state["callbacks"] for state in first} == {"none", "one", "more"}


def test_every_kind_of_switch_happens(observed):
    for (isa, release, kind), part in observed.groupby(["isa", "release", "observer"]):
        had = Facts(isa, release)
        names = {"plain", "guarded"} | ({"regs"} if had.regs else set()) | ({"direct"} if had.direct else set())
        assert set(part["change"]) == {sign + name for sign in "+-" for name in names}, (isa, release, kind)
        assert part["attached"].str.split().str.len().max() == observing.MOST


def test_only_x86_shows_a_plain_callback_who_else_is_there(observed):
    shown = observed[observed["differs"] != ""]
    assert (
        set(shown["isa"]) == {"x86_64"}
        and set(shown["observer"]) == {"plain"}
        and set(shown["differs"]) == {"full_regs"}
    )
    alone = observed[(observed["isa"] == "x86_64") & ~observed["attached"].str.contains("regs|direct")]
    assert len(alone) > 20 and set(alone["differs"]) == {""}


def test_what_a_callback_would_notice_refutes_s3(observed, monkeypatch):
    """Of what was promised nothing differs; were the rest promised, something would."""
    assert set(observed["promised"]) == {""}
    missed = observed.assign(seen=observed["seen"].where(observed["release"] != "v6.4", 0))
    others = (observed.assign(right=False), observed.assign(promised=observed["differs"]), missed)
    assert not problem("s3", switching.rows())
    for changed in others:
        monkeypatch.setattr(observing, "rows", lambda changed=changed: changed)
        assert problem("s3", switching.rows())


def test_the_observer_sees_the_call():
    """What it writes down is this call's: the arguments, and the function's own addresses."""
    from tramplab.lab.kernel import Kernel
    from tramplab.trampolines.plain import Ops

    for isa in ISAS:
        kernel = Kernel(isa)
        function = kernel.function(observing.FUNCTION)
        kernel.attach(function, Ops(callback=observer.CALLBACK))
        _, times, words = observer.call(kernel, observing.FUNCTION, 11, 22, 33)
        assert times == 1 and [words[f"arg{n}"] for n in range(3)] == [11, 22, 33]
        assert function.address <= words["ip"] < function.site.body and words["parent_ip"] == kernel.machine.return_to


# -- registers at the first instruction


@pytest.fixture(scope="module")
def poisoned():
    return dead_registers.rows()


def test_every_register_of_every_function_is_poisoned_once(poisoned):
    for name, isa in ISAS.items():
        part = poisoned[poisoned["isa"] == name]
        chosen = set(isa.registers) - {*isa.fixed, isa.sp, isa.link}
        assert set(part["register"]) == chosen and len(part) == len(chosen) * part["function"].nunique()
        assert part["function"].nunique() == 10 and not part.duplicated(["function", "register"]).any()


def test_a_poisoned_argument_always_shows(poisoned):
    """So the check sees what it looks for; beyond those in registers, no register carries one."""
    shows = poisoned[poisoned["effect"] != "none"]
    assert (
        len(shows) > 100 and set(shows["role"]) == {"argument"} and dead_registers.numbers(poisoned)["unnoticed"] == 0
    )


def test_a_register_that_is_alive_refutes_the_finding(poisoned):
    assert not problem("v4", poisoned)
    alive = poisoned.copy()
    alive.loc[(alive["isa"] == "riscv64") & (alive["role"] == "other argument"), "effect"] = "other result"
    assert problem("v4", alive).startswith("alive == 0 is not so: ")
    # what is not claimed to be dead decides nothing
    assert not problem("v4", poisoned.assign(effect=poisoned["effect"].mask(poisoned["role"] == "preserved", "fault")))


# -- restores taken out


@pytest.fixture(scope="module")
def dropped():
    return dropped_saves.rows()


def test_every_argument_register_has_its_restore_taken_out(dropped):
    for name, isa in ISAS.items():
        part = dropped[
            (dropped["isa"] == name) & (dropped["callback"] == "counts") & (dropped["function"] == "eight_args")
        ]
        assert {r for restore in part["restore"] for r in restore.split()} == set(isa.args)
        assert not part.duplicated("restore").any()


def test_what_a_function_does_not_take_may_go(dropped):
    idle = dropped[~dropped["carries"]]
    assert len(idle) > 50 and idle["right"].all()


def test_a_restore_that_is_not_needed_refutes_the_finding(dropped):
    assert not problem("v2", dropped)
    assert problem("v2", dropped.assign(right=dropped["right"] | (dropped["isa"] == "arm64"))).startswith("clobbers == dropped")
    lucky = dropped[dropped["carries"] & (dropped["callback"] == "counts") & dropped["right"]]
    assert {r for restore in lucky["restore"] for r in restore.split()} >= {"r8", "r9", "x6", "a7"}


def test_text_is_as_before():
    """The trampoline is whole again after its instructions were taken out one by one."""
    from tramplab.lab.kernel import Kernel

    for isa in ISAS:
        kernel = Kernel(isa)
        before = [kernel.machine.read(s.address, s.size) for s in kernel.image.segments if s.executable]
        dropped_saves._drop(kernel, kernel.function("eight_args"), "lab_observe_clobber")
        assert [kernel.machine.read(s.address, s.size) for s in kernel.image.segments if s.executable] == before
