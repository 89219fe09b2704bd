"""Conclusions of the front page and of *In short* that an image can decide: the lab's number, Debian's beside it, and that both say
the same. A conclusion about releases that Debian has no kernel of, or about several probes, is not here.
"""

import functools
import itertools

import pytest

from tramplab.returns import mechanisms
from tramplab.vmlinux.results import beside
from tramplab.vmlinux.saved import saved
from tramplab_book.studies.front import answers
from tramplab_book.studies.returns.costs import return_costs

ISAS = ("x86_64", "arm64", "riscv64")
PARTS = ("site", "trampoline", "core")


@functools.cache
def image(isa: str, release: str) -> dict:
    """Debian's plain kernel: hook -> its row."""
    (found,) = (f for f in saved.plain() if (f["kernel"]["isa"], f["kernel"]["release"]) == (isa, release))
    return {row["hook"]: row for row in found["hooks"] if row["status"] == "measured"}


def debian(isa: str, release: str, hook: str) -> int:
    """Instructions that a hook adds in Debian's kernel."""
    return saved.added(isa, release, hook)


def lab(isa: str, release: str, hook: str) -> int:
    """The same in the lab, of the function that images are compared with."""
    hooked, idle = (beside._run(isa, release, name).counts for name in (hook, "none"))
    return sum((hooked.by_component[part] - idle.by_component[part]).instructions for part in PARTS)


# -- what a hook costs: the front page, fig-answers

#: Of the front page's rows those that an image was asked for, with its hook; a direct call is as its site can make it.
FRONT = {"one ops": "ops", "two ops": "ops:2", "direct call": "direct", "BPF fentry": "bpf-fentry", "BPF fexit": "bpf-fexit"}
FRONT |= {"fprobe, return": "fprobe-exit"}
#: Where a row says how its code is reached, that: of a direct call outside x86-64 far, of BPF's on riscv64.
FAR = {"direct call": ("arm64", "riscv64"), "BPF fentry": ("arm64", "riscv64"), "BPF fexit": ("arm64", "riscv64")}
#: What Debian's 7.2 adds, in the order of FRONT.
COSTS = {"x86_64": (35, 217, 0, 98, 153, 604), "arm64": (39, 213, 6, 135, 227, 779), "riscv64": (40, 237, 4, 114, 194, 985)}


def front(isa: str, row: str) -> str:
    far = FRONT[row] == "direct" and isa != "x86_64"
    return "direct-far" if far else FRONT[row]


@pytest.mark.parametrize("isa", ISAS)
def test_hooks_rank_as_on_the_front_page(isa):
    """The call of a direct target's stub is in the lab's number, so a direct call is compared with what is clearly above it."""
    found = {row: debian(isa, "v7.2", front(isa, row)) for row in FRONT}
    assert tuple(found.values()) == COSTS[isa]
    told = answers.rows()
    counts = told[told["isa"] == isa].set_index("case")["instructions"]
    own = {row: counts[f"{row}, {'far' if isa in FAR[row] else 'near'}" if row in FAR else row] for row in FRONT}
    for one, other in itertools.combinations(FRONT, 2):
        if {one, other} != {"one ops", "direct call"}:
            assert (own[one] < own[other]) == (found[one] < found[other]), (one, other)
    assert max(own, key=own.__getitem__) == max(found, key=found.__getitem__) == "fprobe, return"


# -- one ops, two, and others elsewhere: fig-single-callback, fig-dispatch, fig-call-ops, fig-by-release

LIST = ("ftrace_ops_list_func", "arch_ftrace_ops_list_func", "hash_contains_ip", "ftrace_ops_test", "rcu_is_watching")


@pytest.mark.parametrize(("isa", "second"), [("x86_64", 182), ("arm64", 174), ("riscv64", 197)])
def test_a_second_ops_is_nearly_all_in_the_list_function(isa, second):
    assert debian(isa, "v7.2", "ops:2") - debian(isa, "v7.2", "ops") == second
    symbols = image(isa, "v7.2")["ops:2"]["symbols"]
    listed = sum(counts[0] for name, counts in symbols.items() if name.split(".")[0] in LIST)
    assert listed >= 0.95 * second
    assert abs(lab(isa, "v7.2", "ops:2") - lab(isa, "v7.2", "ops") - second) <= 0.15 * second


@pytest.mark.parametrize(
    ("isa", "release", "pointer", "alone", "beside_ten"),
    [
        ("arm64", "v6.1", False, 140, 560),
        ("arm64", "v6.12", True, 39, 39),
        ("arm64", "v7.2", True, 39, 39),
        ("riscv64", "v6.12", False, 161, 741),
        ("riscv64", "v7.2", True, 40, 40),
    ],
)
def test_with_the_pointer_others_elsewhere_cost_nothing(isa, release, pointer, alone, beside_ten):
    """And a dynamic ops alone skips the list function."""
    assert (debian(isa, release, "ops"), debian(isa, release, "ops+10-elsewhere")) == (alone, beside_ten)
    mine = [lab(isa, release, hook) for hook in ("ops", "ops+10-elsewhere")]
    for one, ten in ((alone, beside_ten), mine):
        assert (one == ten) == pointer and (one < 60) == pointer


@pytest.mark.parametrize(
    ("isa", "before", "after", "numbers"), [("arm64", "v6.1", "v7.2", (189, 213)), ("riscv64", "v6.12", "v7.2", (222, 237))]
)
def test_two_ops_gain_nothing_by_the_pointer(isa, before, after, numbers):
    assert (debian(isa, before, "ops:2"), debian(isa, after, "ops:2")) == numbers
    assert numbers[1] >= numbers[0] and lab(isa, after, "ops:2") >= lab(isa, before, "ops:2")


@pytest.mark.parametrize(
    ("isa", "before", "after", "numbers"), [("arm64", "v6.1", "v6.12", (32, 39)), ("riscv64", "v6.12", "v7.2", (39, 40))]
)
def test_a_static_ops_gets_more_expensive_by_the_pointer(isa, before, after, numbers):
    assert (debian(isa, before, "ops-static"), debian(isa, after, "ops-static")) == numbers
    assert numbers[0] < numbers[1] and lab(isa, before, "ops-static") < lab(isa, after, "ops-static")


# -- a direct call out of reach, and guards: fig-reach-price, fig-direct-cases, fig-guard-cost


@pytest.mark.parametrize(("release", "more"), [("v6.12", 6), ("v7.2", 6)])
def test_out_of_reach_a_direct_call_costs_six_more_on_arm64(release, more):
    assert debian("arm64", release, "direct-far") - debian("arm64", release, "direct") == more
    own = [beside.lab("arm64", release, hook) for hook in ("direct-far", "direct")]
    assert sum(own[0][part][0] - own[1][part][0] for part in PARTS) == more


@pytest.mark.parametrize(("isa", "guard"), [("x86_64", 43), ("arm64", 120), ("riscv64", 135)])
def test_ftrace_s_guard_costs_less_than_what_is_around_a_program(isa, guard):
    """On arm64 and riscv64 the assist function is the list function, which is more than the guard."""
    assert debian(isa, "v7.2", "ops-assist") - debian(isa, "v7.2", "ops") == guard
    if isa == "x86_64":
        assert guard < sum(counts[0] for counts in image(isa, "v7.2")["bpf-fentry"]["symbols"].values())


# -- seeing a function return: fig-return-costs, fig-fprobe-releases

#: Bare handlers and BPF programs of v7.2 in Debian's kernels, from the cheapest on.
BARE = {
    "x86_64": {"graph": 269, "kretprobe": 448, "fprobe-exit": 604},
    "arm64": {"graph": 425, "fprobe-exit": 779, "kretprobe-brk": 1029},
    "riscv64": {"graph": 516, "fprobe-exit": 985, "kretprobe-brk": 1082},
}
PROGRAMS = {
    "x86_64": {"bpf-fexit": 153, "kretprobe-bpf": 596, "kretprobe-multi": 690},
    "arm64": {"bpf-fexit": 227, "kretprobe-multi": 888, "kretprobe-brk-bpf": 1219},
    "riscv64": {"bpf-fexit": 194, "kretprobe-multi": 1214, "kretprobe-brk-bpf": 1320},
}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("ranked", [BARE, PROGRAMS], ids=["bare", "program"])
def test_mechanisms_that_see_a_return_rank_alike(isa, ranked):
    found = {hook: debian(isa, "v7.2", hook) for hook in ranked[isa]}
    assert found == ranked[isa] and list(found) == sorted(found, key=found.__getitem__)
    own = {hook: lab(isa, "v7.2", hook) for hook in found}
    assert list(own) == sorted(own, key=own.__getitem__)


@pytest.mark.parametrize("isa", ISAS)
def test_the_answer_ranks_as_images_do(isa):
    """The sentence under the figure, which names them from the cheapest on."""
    hooks = {name: build.image for name, build in mechanisms.newest(isa).items() if name != mechanisms.FEXIT}
    known = return_costs.totals(return_costs.rows())
    newest = known[(known["isa"] == isa) & (known["release"] == "v7.2")].set_index("mechanism")["instructions"]
    bare = [name for name in newest.sort_values().index if name in hooks]
    assert [hooks[name] for name in bare] == list(BARE[isa])


@pytest.mark.parametrize(("hook", "numbers"), [("fprobe", (136, 144)), ("fprobe-exit", (414, 604))])
def test_fprobes_got_more_expensive_on_x86(hook, numbers):
    """From return hooks to the graph tracer, and at the entry to an ops that they share."""
    assert (debian("x86_64", "v6.12", hook), debian("x86_64", "v7.2", hook)) == numbers
    assert numbers[0] < numbers[1] and lab("x86_64", "v6.12", hook) < lab("x86_64", "v7.2", hook)


# -- the copy of a pt_regs: fig-ways-out, fig-ways-share


@pytest.mark.parametrize(("isa", "copied"), [("x86_64", 0), ("arm64", 0), ("riscv64", 90)])
def test_a_link_s_copy_is_a_call_of_memcpy_on_riscv64_alone(isa, copied):
    """And takes as many instructions there as the lab's."""
    symbols = image(isa, "v7.2")["kprobe-multi"]["symbols"]
    assert symbols.get("memcpy", (0,))[0] == beside.functions(isa, "v7.2", "kprobe-multi").get("memcpy", 0) == copied
