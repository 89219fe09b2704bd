"""The rows of published figures: which of them are read, and what they owe each other."""

import re

import pytest

from support import ROOT
from support.base.data import copied
from tramplab.base.errors import TramplabError
from tramplab_book.publish import published
from tramplab_book.studies.callops import timed
from tramplab_book.studies.direct.contention import contention
from tramplab_book.studies.direct.kprobe import kprobe_ways
from tramplab_book.studies.direct.returns import fprobe_since
from tramplab_book.studies.direct.single import many_attach, single_attach
from tramplab_book.studies.front import answers
from tramplab_book.studies.returns.costs.return_published import ROUNDS
from tramplab_book.studies.time import hackbench, published_call_ops, published_pairs
from tramplab_book.studies.variants import thread_2019

STUDIES = ROOT / "lib" / "tramplab_book" / "studies"
SIDES = ("before", "after")
#: The studies with published figures -> what of each reads them.
READERS = {
    "callops/timed": lambda: [timed.in_table(t, side, *cell) for t in timed.TABLES for side in timed.SIDES for cell in timed.CELLS],
    "direct/contention/contention": lambda: [
        contention.measured(n, pool) for n, pools in contention.PUBLISHED.items() for pool in pools
    ],
    "direct/returns/fprobe_since": fprobe_since.speeds,
    "direct/kprobe/kprobe_ways": lambda: [kprobe_ways.copies(), *map(kprobe_ways.ratios, kprobe_ways.ROUNDS)],
    "direct/single/single_attach": single_attach.saved_waits,
    "direct/single/many_attach": many_attach.attach_times,
    "front/answers": lambda: [published.get(name) for both in answers.PUBLISHED.values() for name in both if name],
    "returns/costs/return_published": lambda: [
        published.get(r.ids + bench) for r in ROUNDS for bench in ("kretprobe", "kprobe", r.other, r.entry)
    ],
    "time/hackbench": lambda: [
        hackbench.Rise.of(counter, *line) for counter in ("branch-misses", "insns", "cycles") for line in hackbench.LINES.values()
    ],
    "time/published_call_ops": lambda: [
        published_call_ops._measured(t, side, *load)
        for t in published_call_ops.TABLES for side in SIDES for load in published_call_ops.LOADS
    ],
    "time/published_pairs": lambda: [pair.ratio for pair in published_pairs.PAIRS],
    "variants/thread_2019": thread_2019.numbers,
}  # fmt: skip


def test_what_is_shown_is_read_and_the_rest_is_not(monkeypatch):
    """No row is there of which nobody can say what for: a study reads it, another is checked with it, or it is for reference."""
    imports = re.compile(r"^from [.]+publish(\.published import| import .*\bpublished\b)", re.M)
    found = [path for path in STUDIES.rglob("*.py") if imports.search(path.read_text("utf-8"))]
    assert {path.relative_to(STUDIES).with_suffix("").as_posix() for path in found} == READERS.keys()
    rows, asked = published.read(), set()

    class Asked(dict):
        def __getitem__(self, name):
            asked.add(name)
            return super().__getitem__(name)

        def get(self, name):
            asked.update({name} & self.keys())
            return super().get(name)

    monkeypatch.setattr(published, "read", lambda: Asked(rows))
    for reads in READERS.values():
        reads()
    shown = {name for name, row in rows.items() if row.use == published.SHOWN}
    assert asked - shown == set(), "these are read now: say `shown` in their column `use`"
    assert shown - asked == set(), "nothing reads these any more: say `reference` in their column `use`, or show them"
    assert len(shown) > 140


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("before-r0-i1-total,", "before-r0-i0-total,", "the id arm64-callops-before-r0-i0-total is given twice; an id is for"),
        (",63.73,", ",63.93,", "arm64-callops-before-r1-i1-overhead: 64.68 less 0.95 is not 63.93; put right what is mistyped"),
        (",64.68,", ",65.68,", "arm64-callops-before-r1-i1-overhead: 65.68 less 0.95 is not 63.73; put right what is mistyped"),
        ("k1-after-r2-i0-overhead", "k1-after-r3-i0-overhead", "riscv-callops-k1-after-r2-i0-total is to be checked, and has no"),
        (",reference\n", ",checked\n", "arm64-callops-before-r0-i1-total is to be checked, and has no"),
        ("1064407-9-mark", "1064407-8-mark", "r0-i1-total has another mail or commit than arm64-callops-before-r0-i0-total,"),
        (",ns/call,True,", ",ms,True,", "arm64-callops-before-r0-i0-total, unit: unknown value 'ms'; did you mean s or ns?"),
        (",0.95,", ',"0,95",', "arm64-callops-before-r0-i0-total, value: a value is a number like 5.84, not '0,95'."),
        (",ns/call,True,", ",ns/call,False,", "r0-i0-total: of ns/call less is better, so lower_is_better is True."),
        (",20230123134603", ",<20230123134603", "message_id: a message-id stands without < and >, not '<20230123"),
        ("20230123134603.1064407-9-mark.rutland@arm.com,baaf553d3bc3", ",", "r0-i0-total: a message_id or a commit tells where it"),
        (",shown\n", "\n", "published.csv is not CSV: line 15 has 13 values, and there are 14 columns."),
    ],
)
def test_rows_that_contradict_each_other_are_refused(tmp_path, monkeypatch, old, new, said):
    file = copied(tmp_path, monkeypatch) / published.FILE
    whole = file.read_text("utf-8")
    assert old in whole
    file.write_text(whole.replace(old, new, 1), "utf-8")
    with pytest.raises(TramplabError) as refused:
        published.read.__wrapped__()
    assert said in str(refused.value)
