"""A schedule as two walks side by side: nothing of it is lost, and what they show is what was executed."""

import functools
from itertools import pairwise

import pytest

from tramplab.races import schedule
from tramplab.races.barriers import numbers_of
from tramplab.races.explore import explore
from tramplab.races.schedule import THREAD
from tramplab.races.schemes.schemes import scheme
from tramplab.races.search.automaton import EXECUTES
from tramplab.races.strips import START, strips

#: On each ISA, with data and without, with instructions that are half written and a fix-up that moves the thread.
CASES = [
    ("riscv64-pair-preempt", ""),
    ("riscv64-pair-target", ""),
    ("arm64-common", ""),
    ("x86_64-common", ""),
    ("x86_64-int3", "text_poke_sync-1"),
    ("riscv64-call-ops", "synchronize_rcu_tasks"),
    ("riscv64-saved-pc", "fence.i"),
]


@functools.cache
def found(name, without):
    chosen = scheme(name)
    subject = chosen.subject()
    return explore(subject, 1, chosen.fetch, numbers_of(subject, [without] if without else []))


@pytest.fixture(params=CASES, ids=lambda case: "-".join(filter(None, case)))
def result(request):
    return found(*request.param)


def widths(walk) -> dict[str, int]:
    """Milestone -> steps from there to the next one."""
    marks = walk["milestones"]
    return dict(zip(marks, (b - a for a, b in pairwise([*marks.values(), len(walk["steps"])])), strict=True))


def test_every_step_is_in_one_of_the_two_and_at_its_place(result):
    walks = strips(result)
    told = schedule.lines(result, folded=False)
    patcher, thread = map(widths, walks)
    order = {name: (width, thread[name]) for name, width in patcher.items()}
    assert list(order) == list(thread) and order.pop(START) == (1, 1)
    first = 1
    for name, (patched, executed) in order.items():
        who, number = name.rsplit("-", 1)
        width = executed if who == THREAD else patched
        assert patched + executed == width and int(number) == first
        assert {line.who for line in told[first - 1 : first - 1 + width]} == {who}
        first += width
    assert first == len(result.schedule) + 1
    for walk in walks:
        assert len(walk["steps"]) == 1 + sum(line.who == walk["isa"] for line in told)


def test_what_the_thread_holds_is_what_the_emulator_made_of_it(result):
    """Registers, as far as they are told as plain numbers or places on its stack."""
    _, thread = strips(result)
    isa, executions = result.subject.machine.isa, result.threads_of.executions
    top = executions.start[executions.names.index(isa.sp)]
    held, at, checked, executed = dict(thread["registers"]), 1, 0, 0
    for taken, line in zip(result.schedule, schedule.lines(result, folded=False), strict=True):
        if line.who != THREAD:
            continue
        if taken.what == EXECUTES:
            before = result.threads_of.locals[taken.at]
            executed += 1
            for name, value in zip(executions.names, before.registers, strict=True):
                try:
                    told = top + int(held[name][1:] or "0", 0) if held[name][:1] == "S" else int(held[name], 0)
                except (KeyError, ValueError):
                    continue  # the flags, or a name
                assert told & (1 << 64) - 1 == value, name
                checked += 1
        held |= thread["steps"][at][1]
        at += 1
    assert checked > 2 * executed > 0


def test_what_memory_holds_at_the_end_is_what_was_written(result):
    patcher, _ = strips(result)
    assert patcher["memory"], "the thread meets nothing that is written"
    held = dict(patcher["memory"])
    for _, _, stores, _ in patcher["steps"]:
        assert set(stores) <= set(held)
        held |= stores
    assert held != patcher["memory"] and patcher["sp"] == "" and not patcher["registers"]


def test_what_the_last_instruction_needs_is_shown():
    _, thread = strips(found("riscv64-pair-preempt", ""))
    assert "t0" in thread["shown"] and thread["registers"]["t0"] == "t0@0", "nobody has set it"
