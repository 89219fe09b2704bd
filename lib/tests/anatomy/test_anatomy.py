"""Calls as trees of functions: they add up to the counts, their text is read back, and their shape is what the code says."""

import dataclasses
import re
from collections import Counter

import pytest

from support.models import handmade
from support.models.guests import every_isa
from tramplab import anatomy
from tramplab.base.width import WIDTH
from tramplab.ftrace.releases import LATEST
from tramplab.ftrace.releases import features as of
from tramplab.isa import get
from tramplab.lab import hooks
from tramplab.lab.measure import run

LINE = re.compile(r"(?P<missed>.) (?P<counts>[\d ]{5})  \|  (?P<depth> *)(?P<text>\S.*)")
NOTE = re.compile(r" /\* (?:(?P<component>[a-z]+))?(?:, )?(?:x(?P<times>\d+))? \*/$")


def boxes(r):
    return anatomy.boxes(r, r.component_of)


def read_back(text: str) -> list[tuple]:
    """(name, steps, boxes of what it calls) of the lowest level, from a graph's text; a folded box is there as often as it says."""
    levels: list[list] = [[]]
    opened: list[tuple[str, int]] = []
    for line in text.splitlines()[2:]:
        found = LINE.fullmatch(line)
        assert found and len(line) <= WIDTH, line
        note = NOTE.search(found["text"])
        call = NOTE.sub("", found["text"])
        if call == "}":
            (name, times), inner = opened.pop(), levels.pop()
            levels[-1] += [(name, int(found["counts"]), inner)] * times
        else:
            times = int(note["times"] or 1) if note else 1
            assert len(found["depth"]) == 2 * len(opened)
            name = call.removesuffix(" {").removesuffix(";").removesuffix("()")
            if call.endswith("{"):
                opened.append((name, times))
                levels.append([])
            else:
                levels[-1] += [(name, int(found["counts"]), [])] * times
    assert not opened
    return levels[0]


def as_tuples(level) -> list[tuple]:
    return [(box.name, box.length, as_tuples(box.inner)) for box in level]


@every_isa
def test_every_hook_adds_up_and_is_read_back(isa):
    """Steps of all boxes are the run's, and those of each component its counts; an instruction that repeats itself is one step."""
    tried = []
    for hook in (h for h in hooks.HOOKS.values() if h.there(of(get(isa), LATEST, {}))):
        r = run(isa, hook.name, callbacks=2 if hook.counts else 1)
        tree = boxes(r)
        every = [box for top in tree for box in top.every()]
        assert sum(box.own for box in every) == len(r.recording), hook.name
        counted = Counter()
        for box in every:
            counted[box.component] += box.own
        repeated = any(i.repeated for i in r.instructions.values())
        expected = {name: c.instructions for name, c in r.counts.by_component.items() if c.instructions}
        assert repeated or counted == expected, hook.name
        assert all(box.start == n for box, n in zip(tree, starts(tree), strict=True)), hook.name
        assert read_back(anatomy.graph_text(tree)) == as_tuples(tree), hook.name
        tried.append(hook.name)
    assert len(tried) > 20


def starts(level, at: int = 0) -> list[int]:
    found = []
    for box in level:
        found.append(at)
        at += box.length
    return found


def names(level) -> list:
    """Names, each with those of what it calls where there are any."""
    return [(box.name, names(box.inner)) if box.inner else box.name for box in level]


def test_the_list_function_calls_each_callback():
    (site, body) = boxes(run("arm64", "ops", callbacks=2))
    (caller,) = site.inner
    (listed,) = caller.inner
    assert (site.name, site.component, body.component) == ("one_arg", "site", "function")
    assert (caller.name, listed.name) == ("ftrace_caller", "ftrace_ops_list_func")
    assert names(listed.inner) == ["hash_contains_ip", "lab_callback"] * 2
    assert "/* x2 */" not in anatomy.graph_text([site]), "the two alternate"


@every_isa
def test_a_return_trampoline_stands_behind_the_function(isa):
    """And neither in it nor in its caller; the function's own return is mispredicted, as it goes where no call came from."""
    tree = boxes(run(isa, "fprobe-exit"))
    assert [box.component for box in tree] == ["site", "function", "trampoline"]
    assert tree[-1].name == "return_to_handler" and tree[1].mispredicted == 1


@every_isa
def test_fexit_calls_the_function_from_its_trampoline(isa):
    """On x86-64 the site jumps to it, on the others it calls it."""
    every = [box for top in boxes(run(isa, "bpf-fexit")) for box in top.every()]
    trampoline = next(box for box in every if box.name == "bpf_trampoline[0]")
    assert trampoline.depth == (0 if isa == "x86_64" else 1)
    assert "one_arg" in [box.name for box in trampoline.inner]


@pytest.mark.parametrize("hook", ["kprobe-brk", "kretprobe-brk"])
@every_isa
def test_an_exception_is_on_top_of_what_it_interrupts(isa, hook):
    first = next(box for box in boxes(run(isa, hook)) if box.inner)
    assert first.name == "one_arg" and first.inner[0].name == "lab_trap_entry"


def test_functions_that_are_alike_are_folded():
    one, other = (anatomy.Box("callee", "core", n, 1, own=5) for n in (1, 6))
    caller = anatomy.Box("caller", "core", 0, 0, own=2, inner=[one, other])
    assert anatomy.graph_text([caller]).splitlines()[3] == "      5  |    callee(); /* x2 */"
    other.own = 6
    assert [line.split()[0] for line in anatomy.graph_text([caller]).splitlines()[3:]] == ["5", "6", "13"]


#: A function that calls itself twice below itself, counting down a register.
RECURSIVE = {
    "x86_64": "mov ecx, 2\ncall f\nret\nf:\ntest ecx, ecx\nje done\ndec ecx\ncall f\ndone:\nret",
    "arm64": "mov x19, x30\nmov x1, #2\nbl f\nret x19\nf:\ncbz x1, done\nsub x1, x1, #1\nstr x30, [sp, #-16]!\nbl f\n"
    "ldr x30, [sp], #16\ndone:\nret",
}


@pytest.mark.parametrize("isa", RECURSIVE)
def test_recursion_goes_deeper_and_comes_back(isa):
    """One function below itself: each return leads to its own caller."""
    call = handmade.call(isa, RECURSIVE[isa])
    (tree,) = anatomy.boxes(call, lambda pc: "core")
    depths = [box.depth for box in tree.every()]
    assert depths == [0, 1, 2, 3] and tree.length == len(call.recording)
    assert [box.own for box in tree.every()][1] == [box.own for box in tree.every()][2] > tree.every()[3].own


#: A function with labels that execution runs into, returns to, and jumps over; at its end it goes on in another one.
LABELLED = """\
mov x19, x30\nbl f\nret x19
f:\nnop
inside:\nstr x30, [sp, #-16]!\nbl g
behind:\nldr x30, [sp], #16\ncbz xzr, over
end:\nnop\nover:\nb g
g:\nret"""
STARTS = {"text": 0, "f": 12, "inside": 16, "behind": 24, "end": 32, "g": 40}


def test_a_label_is_in_its_function():
    call = handmade.call("arm64", LABELLED)
    first = min(call.instructions)

    def name_of(address: int) -> str:
        name, start = max(((n, s) for n, s in STARTS.items() if s <= address - first), key=lambda named: named[1])
        return f"{name}+{address - first - start:#x}" if address - first > start else name

    tree = anatomy.boxes(dataclasses.replace(call, name_of=name_of), lambda pc: "core")
    assert names(tree) == [("text", [("f", ["g"]), "g"])]


def test_a_long_name_is_cut_and_nothing_else():
    deep = anatomy.Box("a" * 80, "core", 0, 0, own=7)
    for n in range(8):
        deep = anatomy.Box("b" * 80, "core", 0, 0, own=1, inner=[deep, anatomy.Box(f"f{n}", "core", 0, 0, own=1)])
    lines = anatomy.graph_text([deep]).splitlines()
    assert max(map(len, lines)) == WIDTH and sum(line.endswith("...() {") for line in lines) == 7
    assert sum(line.endswith("...() { /* core */") for line in lines) == sum(line.endswith("...();") for line in lines) == 1


def test_two_calls_are_matched_by_function():
    def call(*inner: tuple[str, int]):
        return [anatomy.Box("f", "core", 0, 0, own=1, inner=[anatomy.Box(name, "core", 0, 1, own=n) for name, n in inner])]

    lines = anatomy.compared_text(call(("a.isra.0", 3), ("b", 4)), call(("a", 3), ("c", 9), ("b", 5))).splitlines()
    assert [re.sub(r"\s+", " ", line.strip()) for line in lines[2:]] == [
        "| f() { /* core */",
        "3 3 | a.isra.0();",
        "! - 9 | c();",
        "! 4 5 | b();",
        "! 8 18 | }",
    ]
