"""data/booted/: every kernel is whole, and agrees with itself and its image."""

from __future__ import annotations

import json

import pytest

from tramplab.base.errors import TramplabError
from tramplab.boot import saved
from tramplab.boot.counted import expected
from tramplab.boot.probes import PROBES
from tramplab.boot.readings import Executed, Module, Refused, first, those
from tramplab.boot.trials import MANY, TRIALS
from tramplab.vmlinux.debian.list import plain
from tramplab.vmlinux.saved.saved import text

EVERY = saved.every()
#: A kprobe that is hit and whose event writes nothing, which the page on findings says.
SILENT = ("debian-6.12-riscv64", "kprobe-event-inside")
IDS = [one["kernel"]["name"] for one in EVERY]


def test_at_least_six_kernels_of_two_releases_and_three_isas():
    kernels = {(one["kernel"]["isa"], one["kernel"]["release"]) for one in EVERY}
    assert len(kernels) >= 6
    for isa in ("x86_64", "arm64", "riscv64"):
        assert len([release for of, release in kernels if of == isa]) >= 2


@pytest.mark.parametrize("one", EVERY, ids=IDS)
def test_every_probe_that_a_kernel_took_was_called_as_often_as_it_should(one):
    for row in one["probes"]:
        if "refused" not in row and (one["kernel"]["name"], row["probe"]) != SILENT:
            assert row["hits"] == expected(PROBES[row["probe"]]), row["probe"]
            assert row["alike"] > 0


@pytest.mark.parametrize("one", EVERY, ids=IDS)
def test_calls_without_a_probe_are_as_before(one):
    assert one["before"] == one["after"] and one["loop"] == 3


def test_text_is_as_it_is_written():
    for package, one in zip(plain(), EVERY, strict=True):
        assert saved.path(package).read_text("utf-8") == text(one)


def test_another_image_or_other_probes_are_refused(monkeypatch):
    package, one = plain()[0], json.loads(json.dumps(EVERY[0]))
    monkeypatch.setattr(saved.documents, "read", lambda name: one)
    one["kernel"]["sha256"] = "0" * 64
    with pytest.raises(TramplabError, match=r"is of another image than .* lists: run `make booted`"):
        saved.read(package)
    one["kernel"]["sha256"] = package.sha256
    one["after"] = {"getpid": 1}
    with pytest.raises(TramplabError, match="executes another number after all of them"):
        saved.read(package)
    one["after"] = one["before"]
    one["probes"] = one["probes"][1:]
    with pytest.raises(TramplabError, match="other probes than there are"):
        saved.read(package)
    one["loop"] = 3.1
    with pytest.raises(TramplabError, match="loop"):
        saved.read(package)


def _set(*place):
    """What puts something else at a place of a saved boot."""

    def damage(one):
        *way, last, value = place
        for key in way:
            one = one[key]
        one[last] = value

    return damage


@pytest.mark.parametrize(
    "damage, says",
    [
        (_set("trials", 0, "label", "plane"), "other readings of trials"),
        (_set("trials", 0, "trial", "guard"), "other readings of trials"),
        (lambda one: one["trials"].pop(3), "other readings of trials"),
        (lambda one: one["trials"].append(one["trials"][0]), "other readings of trials"),
        (_set("trials", 0, "read", []), "trials"),
        (_set("trials", 0, "read", [{"is": "line", "text": "38"}]), "guard-lost reads nothing like '38' under plain"),
        (_set("trials", 0, "read", [{"is": "hits", "programs": 1, "event": 2}]), "reads nothing like 'programs: 1, event: 2'"),
        (_set("trials", 0, "read", [{"is": "executed", "instructions": -1}]), "trials"),
        (_set("trials", 0, "read", [{"is": "hits", "programs": 1}]), "number 1 has no event"),
        (_set("trials", 0, "read", [38]), "trials"),
        (_set("trials", 0, "read", [None]), "trials"),
        (_set("probes", 0, "hits", {"modul": 1}), "hits"),
        (_set("probes", 0, "hits", {"module": "1"}), "hits"),
        (_set("probes", 0, "hits", {"module": -1}), "hits"),
        (_set("probes", 0, "hits", []), "hits"),
        (_set("probes", 0, "reversed", "37"), "reversed"),
        (_set("probes", 0, "left", 50), "left"),
    ],
)
def test_junk_in_a_saved_boot_is_one_sentence(damage, says, monkeypatch):
    package, one = plain()[0], json.loads(json.dumps(EVERY[0]))
    damage(one)
    monkeypatch.setattr(saved.documents, "read", lambda name: one)
    with pytest.raises(TramplabError, match=says) as raised:
        saved.read(package)
    assert len(str(raised.value).splitlines()) == 1


def test_orders_that_differ_in_more_than_counts_are_refused():
    rows = [{"probe": "ops", "added": 37, "hits": {"module": 1}}, {"probe": "graph", "refused": "ENOENT", "step": "write"}]
    others = [dict(row) for row in rows]
    others[0]["added"] = 39
    first, second = saved._both("debian", rows, others)
    assert list(first.items())[:3] == [("probe", "ops"), ("added", 37), ("reversed", 39)] and second == rows[1]
    for junk in ({"hits": {"module": 2}}, {"left": 50}, {"probe": "direct"}):
        with pytest.raises(TramplabError, match="is not the same when the probes are measured in the reverse order"):
            saved._both("debian", rows, [others[0] | junk, others[1]])


@pytest.mark.parametrize("one", EVERY, ids=IDS)
def test_a_graph_tracer_costs_again_what_it_did_when_a_second_one_has_left(one):
    """As the page on findings says; the second one was there, where the kernel has room for two."""
    alone, left = (first(Executed, saved.tried(one, "second-leaves", f"graph{name}")).instructions for name in ("", "-left"))
    assert abs(left - alone) < 5
    both = those(Executed, saved.tried(one, "second-leaves", "graph-both"))
    assert both[0].instructions > 1.3 * alone if both else one["kernel"]["release"] == "v6.1"


def test_a_link_waits_for_each_function_only_on_riscv64():
    """As the page on many functions says, of kernels that have links."""
    waits = {}
    for one in EVERY:
        read = [reading for n in MANY for reading in saved.tried(one, "many-functions", f"on-{n}")]
        if refused := those(Refused, read):
            assert {reading.error for reading in refused} == {"ENOTSUP"}
        else:
            waits[one["kernel"]["isa"], one["kernel"]["release"]] = [reading.called for reading in those(Module, read)]
    assert {isa for isa, _ in waits} == {"x86_64", "arm64", "riscv64"}
    for (isa, _), (one, *_, many) in waits.items():
        grown = many - one
        assert MANY[-1] - MANY[0] <= grown <= MANY[-1] if isa == "riscv64" else 0 <= grown <= 3


def test_one_trial_is_made_again_and_the_rest_stays(monkeypatch):
    package = next(one for one in plain() if one.name == EVERY[0]["kernel"]["name"])
    monkeypatch.setattr(saved, "content", lambda _: b"")
    monkeypatch.setattr(saved, "machine_of", lambda image: None)
    monkeypatch.setattr(saved.run, "tried", lambda machine, how, trial: [("none", Executed(1)), ("none", Executed(2))])
    made = saved.with_trial(package, TRIALS["missed"])
    assert [row for row in made["trials"] if row["trial"] == "missed"] == [
        {"trial": "missed", "label": "none", "read": [{"is": "executed", "instructions": n} for n in (1, 2)]}
    ]
    others = [row for row in EVERY[0]["trials"] if row["trial"] != "missed"]
    assert [row for row in made["trials"] if row["trial"] != "missed"] == others and made["probes"] == EVERY[0]["probes"]
    assert list(dict.fromkeys(row["trial"] for row in made["trials"])) == list(TRIALS)
