"""Patching schemes on the text of real kernels: the slow path at work on a kernel's own structs, and what is kept of it."""

import json
import re

import pytest

from tramplab import cli
from tramplab.base.errors import TramplabError
from tramplab.ftrace.steps import FENCES, Wait, Write
from tramplab.races.barriers import barriers
from tramplab.races.explore import SAFE, UNSAFE, explore
from tramplab.races.model.fetches import MODELS
from tramplab.races.model.moments import UNORDERED
from tramplab.races.schemes.schemes import SCHEMES, scheme
from tramplab.races.subject import Subject
from tramplab.vmlinux.debian.fetch import image, there
from tramplab.vmlinux.run import races, stubs
from tramplab.vmlinux.saved import races_saved, store

FETCHED = [p for p in races_saved.wanted() if there(p)]
KEPT = {k["name"]: k for k in races_saved.read()["kernels"]}


def fetched(name):
    package = next((p for p in FETCHED if p.name == name), None)
    if package is None:
        pytest.skip(f"the kernel image {name} is not in the cache: `make kernels` fetches it")
    return store.opened(package)


@pytest.fixture(scope="module", params=[p.name for p in races_saved.wanted()])
def found(request) -> dict[str, tuple[Subject, str]]:
    """The schemes of one kernel, on it."""
    return {s.name: (subject, request.param) for s, subject in races.subjects(fetched(request.param), None)}


def test_what_is_kept_is_found_again(found):
    for name, (subject, kernel) in found.items():
        chosen = scheme(name)
        kept = next(r for r in KEPT[kernel]["results"] if (r["scheme"], r["fetch"]) == (name, chosen.fetch))
        result = explore(subject, 3, chosen.fetch)
        outcome = result.violation.which if result.violation else SAFE
        assert (outcome, len(result.schedule), result.states) == (kept["outcome"], kept["steps"], kept["states"])


def test_a_plan_is_the_lab_s_on_other_text(found):
    """Kind by kind, what is waited for and where text is written; data may be laid out in more blocks, with other fences."""
    for name, (subject, _) in found.items():
        lab = scheme(name).subject()
        assert kinds(subject) == kinds(lab)
        site, machine = range(subject.entry, subject.body), subject.machine
        written = {s.address for s in subject.steps if isinstance(s, Write) and s.text}
        assert written and all(at in site or subject.name_of(at).startswith("ftrace_") for at in written)
        assert all(machine.is_text(at) for at in written)
        assert subject.machine is not lab.machine and subject.kernel and not lab.kernel


def kinds(subject):
    """The order of writes to text and of waits for others."""
    steps = [s for s in subject.steps if (s.sync not in FENCES if isinstance(s, Wait) else isinstance(s, Write) and s.text)]
    return [s.sync if isinstance(s, Wait) else len(s.data) for s in steps]


def test_every_barrier_is_there_for_the_same_on_one_of_them():
    """Left out of a real kernel's plan, a barrier breaks what it breaks in the lab's."""
    name = "debian-7.2-riscv64" if any(p.name == "debian-7.2-riscv64" for p in FETCHED) else "debian-6.12-arm64"
    ((chosen, subject),) = races.subjects(fetched(name), None)
    lab = chosen.subject()
    assert [(b.name, b.why) for b in barriers(subject)] == [(b.name, b.why) for b in barriers(lab)]
    for real, own in zip(barriers(subject), barriers(lab), strict=True):
        there_, here = explore(subject, 1, chosen.fetch, real.numbers), explore(lab, 1, chosen.fetch, own.numbers)
        assert (there_.violation and there_.violation.which) == (here.violation and here.violation.which)


def test_what_stops_a_call_that_nobody_disturbs_is_no_verdict(monkeypatch, capsys):
    """Here the callback; in a kernel it may be a register that is missing. The plan is as good as it was."""
    package = next(iter(FETCHED), None) or pytest.skip("no kernel image is in the cache: `make kernels` fetches some")
    monkeypatch.setattr(stubs, "callback", lambda isa, private: bytes(8))  # no instruction of either ISA
    assert cli.main(["explore", "--image", str(image(package))]) == 2
    out, err = capsys.readouterr()
    assert not out and re.match(r"tramplab: \S+ is not explored by \S+, because a call fails where nobody changes anything: ", err)
    assert "guest fault on" in err and "callback" in err and err.count("\n") == 1


@pytest.mark.parametrize("name", ["debian-7.2-riscv64", "debian-7.2-arm64"])
def test_with_stores_in_any_order_the_same_waits_are_needed(name):
    """Also where ftrace_caller loads the pointer twice, as riscv64's: what both loads find is ops that the kernel has had."""
    ((chosen, subject),) = races.subjects(fetched(name), f"{name.rpartition('-')[2]}-call-ops")
    lab = chosen.subject()
    for real, own in zip([None, *barriers(subject)], [None, *barriers(lab)], strict=True):
        there_, here = (
            explore(of, 1, chosen.fetch, one.numbers if one else (), UNORDERED) for of, one in ((subject, real), (lab, own))
        )
        assert there_.outcome == here.outcome, real and real.name


def test_the_command_takes_an_image(capsys):
    package = next(iter(FETCHED), None) or pytest.skip("no kernel image is in the cache: `make kernels` fetches some")
    path, kept = str(image(package)), KEPT[package.name]["results"]
    assert cli.main(["explore", "--image", path, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [r["scheme"] for r in told] == list(dict.fromkeys(r["scheme"] for r in kept))
    assert all(r["kernel"].startswith(package.isa) for r in told)
    assert {r["verdict"] for r in told} <= {SAFE, UNSAFE}
    other = next(n for n in SCHEMES if n not in {r["scheme"] for r in kept})
    assert cli.main(["explore", other, "--image", path]) == 2
    assert f"does not change its sites by {other}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--image", "/etc/hostname"], "is no kernel image"),
        (["--image", "/nowhere/vmlinuz"], "nowhere"),
        (["--image", "/etc/hostname", "--all"], "leave --image away"),
        (["riscv64-pear", "--image", "/etc/hostname"], "did you mean riscv64-pair"),
    ],
)
def test_a_wrong_image_is_one_sentence(capsys, arguments, complaint):
    assert cli.main(["explore", *arguments]) == 2
    told = capsys.readouterr().err
    assert complaint in told and told.count("\n") == 1


def test_of_x86_64_no_image_is_explored(tmp_path, monkeypatch):
    """Its breakpoints are not set up on a real kernel."""

    class Machine:
        class isa:
            name = "x86_64"

        class opened:
            class payload:
                path = "vmlinuz"

    with pytest.raises(TramplabError, match="only schemes of arm64 and riscv64"):
        races.fitting(Machine())


# -- what is kept


def test_every_case_that_fits_is_kept():
    assert [k["name"] for k in KEPT.values()] == [p.name for p in races_saved.wanted() if p.name in KEPT] and len(KEPT) > 3
    for kernel in KEPT.values():
        cases = [(r["scheme"], r["fetch"]) for r in kernel["results"]]
        names = dict.fromkeys(name for name, _ in cases)
        assert cases == [(name, fetch) for name in names for fetch in MODELS]
    assert set(SCHEMES) - {r["scheme"] for k in KEPT.values() for r in k["results"]} == {
        "riscv64-fixed-auipc",
        "riscv64-common",  # of kernels built without CALL_OPS
        "riscv64-pair16",
        "riscv64-pair16-preempt",  # Debian's 6.1 had no riscv64
        *(name for name, s in SCHEMES.items() if s.isa == "x86_64" or not s.plain),
    }


def test_the_file_is_written_as_it_is_read(tmp_path):
    path = tmp_path / "races.json"
    data = races_saved.read()
    path.write_text(races_saved.text(data), "utf-8")
    assert store.read(path, races_saved.File, races_saved.wanted()) == data
    for spoilt, complaint in (
        (races_saved.text(data).replace('"pair", "steps"', '"pear", "steps"', 1), "pear"),
        (races_saved.text(data).replace(data["kernels"][0]["sha256"], "0" * 64), "another image"),
    ):
        path.write_text(spoilt, "utf-8")
        with pytest.raises(TramplabError, match=complaint):
            store.read(path, races_saved.File, races_saved.wanted())
