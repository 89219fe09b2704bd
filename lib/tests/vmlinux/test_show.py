"""Results as text and CSV, and two of them compared."""

import copy
import csv
import io

import pytest

from tramplab import TramplabError
from tramplab.base.width import WIDTH
from tramplab.vmlinux.results import beside, differ, result, show
from tramplab.vmlinux.saved import saved

EVERY = {r["package"]["name"]: r for r in saved.every()}
NEW, OLD = EVERY["debian-7.2-arm64"], EVERY["debian-6.12-arm64"]
every = pytest.mark.parametrize("found", EVERY.values(), ids=EVERY)


@every
def test_text_fits_and_names_every_hook(found):
    text = show.text(found)
    assert max(map(len, text.splitlines())) <= WIDTH
    for row in found["hooks"]:
        (line,) = [n for n in text.splitlines() if n.startswith((f"{row['hook']} ", f"{row['hook']}: "))]
        if row["status"] == "measured":
            assert [int(n) for n in line.split()[2:5]] == [
                row["components"][c]["instructions"] for c in ("site", "trampoline", "core")
            ]
        else:
            assert "not there" in line


def test_what_failed_is_said_loudly():
    found = copy.deepcopy(NEW)
    found["hooks"][1] = {"hook": "ops", "status": "failed", "reason": "x0 was 0x1 and is 0x2 at the body of bpf_fentry_test1"}
    text = show.text(found)
    assert "ops: NOT MEASURED, x0 was 0x1 and is 0x2 at the body" in text.replace("\n  ", " ")


@every
def test_csv_has_a_line_for_each_component(found):
    lines = list(csv.DictReader(io.StringIO(show.as_csv([("a", found)]))))
    for row in found["hooks"]:
        mine = [n for n in lines if n["hook"] == row["hook"]]
        if row["status"] == "measured":
            assert {n["component"]: int(n["instructions"]) for n in mine} == {
                c: counts["instructions"] for c, counts in row["components"].items()
            }
        else:
            assert [(n["component"], n["reason"]) for n in mine] == [("", row["reason"])]


def test_results_of_many_kernels_beside_each_other_fit_in_blocks():
    results = [(f"{'a folder/' * 12}{name}", {**found, "hooks": saved.rows(found)}) for name, found in EVERY.items()]
    text = show.several_text(results)
    assert max(map(len, text.splitlines())) <= WIDTH and len(results) == len(EVERY)
    rows = [n.split()[1:] for n in text.splitlines() if n.startswith("ops:2 ")]
    assert {len(row) for row in rows[:-1]} == {6} and sum(map(len, rows)) == len(EVERY) > 12
    hooks = [next(r for r in found["hooks"] if r["hook"] == "ops:2") for found in EVERY.values()]
    assert [int(n) for row in rows for n in row] == [result.added(row)["instructions"] for row in hooks]


def test_what_failed_beside_others_is_said_loudly():
    found = copy.deepcopy(NEW)
    found["hooks"][1] = {"hook": "ops", "status": "failed", "reason": "it did not return"}
    text = show.several_text([("a", NEW), ("b", found)])
    assert "ops in 2: NOT MEASURED, it did not return" in text
    assert next(n.split()[2] for n in text.splitlines() if n.startswith("ops ")) == "FAILED"


def test_an_image_differs_in_nothing_from_itself():
    changes = differ.changes(NEW, copy.deepcopy(NEW))
    assert len(changes) == len(NEW["hooks"]) and not any(c.differs for c in changes)
    assert "No hook differs" in show.diff_text(NEW, NEW, changes)


def test_a_diff_tells_what_changed_by_how_much_and_in_which_function():
    other = copy.deepcopy(NEW)
    row = next(r for r in other["hooks"] if r["hook"] == "ops:2")
    row["components"]["core"]["instructions"] += 7
    row["components"]["core"]["loads"] -= 1
    row["symbols"]["ftrace_ops_list_func"][0] += 7
    (change,) = [c for c in differ.changes(NEW, other) if c.differs]
    assert change.hook == "ops:2"
    assert change.after["instructions"] - change.before["instructions"] == 7
    assert change.after["loads"] - change.before["loads"] == -1
    ((name, before, after),) = change.symbols
    assert (name, after - before) == ("ftrace_ops_list_func", 7)
    text = show.diff_text(NEW, other, [change])
    assert "+7" in text and "-1" in text and f"{before} -> {after}" in text


def test_copies_that_gcc_makes_of_a_function_are_the_function():
    other = copy.deepcopy(NEW)
    for row in other["hooks"]:
        if "hash_contains_ip" in row.get("symbols", {}):
            row["symbols"]["hash_contains_ip.isra.0"] = row["symbols"].pop("hash_contains_ip")
    assert not any(c.differs for c in differ.changes(NEW, other))


def test_a_diff_says_why_there_is_no_number():
    other = copy.deepcopy(NEW)
    gone = {"hook": "direct", "status": "absent", "reason": "it has no such thing"}
    other["hooks"] = [gone if r["hook"] == "direct" else r for r in other["hooks"]]
    (change,) = [c for c in differ.changes(NEW, other) if c.differs]
    assert "direct: after: it has no such thing" in show.diff_text(NEW, other, [change])


def test_a_diff_of_two_releases_fits():
    text = show.diff_text(OLD, NEW, differ.changes(OLD, NEW))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.startswith("6.12.107+deb13-arm64 -> 7.2.13+deb14-arm64 on arm64")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kernel": {**NEW["kernel"], "isa": "riscv64"}}, "the first kernel is for arm64 and the second for riscv64"),
        ({"function": "another"}, "one result is of bpf_fentry_test1 and one of another"),
        ({"kernel": {**NEW["kernel"], "mitigations": "linked"}}, "'mitigations none; .* of the second 'mitigations linked; "),
        (
            {"kernel": {**NEW["kernel"], "booted": ["7 patch sites", "9 of 9 alternatives applied"]}},
            "first kernel is 'mitigations none; alternatives are as linked', .* 'mitigations none; N of N alternatives applied'",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(change, said):
    with pytest.raises(TramplabError, match=said):
        differ.changes(NEW, {**NEW, **change})


@every
def test_the_lab_beside_a_kernel_fits_and_has_each_part_that_both_have(found):
    pairs = list(beside.pairs(found))
    text = show.lab_text(pairs)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert [line.split()[:2] for line in text.splitlines()[1:]] == [[p.hook, p.component] for p in pairs]
    assert {p.hook for p in pairs} >= {"none", "ops", "ops:2", "ops:10"}
    sites = [p for p in pairs if p.component == "site"]
    assert all(p.real[0] == p.lab[0] for p in sites)  # what the compiler left and boot made of it
    assert all(p.off == (p.lab[0] - p.real[0]) / p.real[0] for p in pairs if p.real[0])
