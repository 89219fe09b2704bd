"""`tramplab kernel`: what it prints of an image that was fetched, and one sentence for what cannot be."""

import csv
import functools
import io
import json
import re

import pytest

from tramplab.base.width import WIDTH
from tramplab.vmlinux import command
from tramplab.vmlinux.debian.fetch import content, there
from tramplab.vmlinux.debian.list import packages
from tramplab.vmlinux.hooks import callbacks
from tramplab.vmlinux.results.result import added, machine_of
from tramplab.vmlinux.saved import saved

real = callbacks.seen
ONE = {p.isa: p for p in packages() if p.one}


@pytest.fixture
def tramplab(tramplab):
    """Run `tramplab kernel`; returns (status, stdout, stderr)."""
    return functools.partial(tramplab, "kernel")


@functools.cache
def machine(isa, folder):
    path = folder / ONE[isa].name
    path.write_bytes(content(ONE[isa]))
    return machine_of(path)


@pytest.fixture
def image(request, monkeypatch, tmp_path_factory):
    """The path of a fetched image; it is opened once for all tests of it."""
    isa = request.param
    if not there(ONE[isa]):
        pytest.skip(f"{ONE[isa].name} has not been fetched (make kernels KERNELS=--one)")
    kept = machine(isa, tmp_path_factory.getbasetemp())
    path = kept.opened.payload.path
    monkeypatch.setattr(command, "machine_of", lambda asked, *more: kept if asked == path else machine_of(asked, *more))
    return path


every = pytest.mark.parametrize("image", ONE, indirect=True)
one = pytest.mark.parametrize("image", ["riscv64"], indirect=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "the following arguments are required: IMAGE"),
        (("diff", "a"), "diff compares two kernel images: tramplab kernel diff A B"),
        (("diff", "a", "b", "c"), "diff compares two kernel images"),
        (("a", "b", "--trace", "ops"), "--trace, --calls, --lab and --core are for one kernel image: give one, or leave them away"),
        (("a", "b", "--lab"), "--trace, --calls, --lab and --core are for one kernel image"),
        (("a", "b", "--core", "zen3"), "--trace, --calls, --lab and --core are for one kernel image"),
        (("a", "--json", "--csv"), "--json, --csv, --trace, --calls and --lab are ways to show a result: choose one"),
        (("diff", "a", "b", "--lab"), "--trace, --lab and --csv are for one kernel image, not for diff"),
        (("nowhere",), "there is no file nowhere"),
        (("diff", "nowhere", "b"), "there is no file nowhere"),
        (("/",), "/ is a directory"),
    ],
)
def test_what_cannot_be_is_one_sentence(tramplab, arguments, said):
    status, out, err = tramplab(*arguments)
    assert (status, out) == (2, "")
    assert said in err and err.count("\n") == 1 and err.startswith("tramplab: ")


@every
def test_the_table(tramplab, image):
    status, out, err = tramplab(image)
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= WIDTH
    assert "NOT MEASURED" not in out and "ops:10" in out and "faked: one CPU" in out


@every
def test_json_is_what_is_published(tramplab, image):
    status, out, _ = tramplab(image, "--json")
    found = json.loads(out)
    published = saved.read(next(p for p in ONE.values() if p.name == image.name))
    assert status == 0 and {"package": published["package"], **found} == {k: v for k, v in published.items() if k != "mitigated"}


@one
def test_a_hook_that_is_not_measured_shows_in_the_exit_status(tramplab, image, monkeypatch):
    """One that the kernel does not have does not; one alone to be shown is a sentence."""
    monkeypatch.setattr(callbacks, "seen", lambda machine, function, hits=1: real(machine, function, 3))
    for more in ((), ("--json",), ("--csv",)):
        assert tramplab(image, "--hook", "none,ops-regs,ops", *more)[0] == command.UNMEASURED == 1
        assert tramplab(image, "--hook", "none,ops-regs", *more)[0] == 0
    assert "ops: NOT MEASURED, the callback ran 1 times, not 3" in tramplab(image, "--hook", "ops")[1]
    assert tramplab(image, image, "--hook", "ops")[0] == tramplab("diff", image, image, "--hook", "ops")[0] == 1
    status, out, err = tramplab(image, "--trace", "ops")
    assert (status, out) == (2, "") and "ops was not measured on" in err


@one
def test_some_hooks_only(tramplab, image):
    found = json.loads(tramplab(image, "--json", "--hook", "ops,direct-far")[1])
    assert [row["hook"] for row in found["hooks"]] == ["ops", "direct-far"]
    status, out, err = tramplab(image, "--hook", "opps")
    assert (status, out) == (2, "") and "unknown hook 'opps'; did you mean ops" in err
    status, out, err = tramplab(image, "--hook", "rethook")
    assert (status, out) == (2, "") and "did you mean kretprobe or fprobe-exit" in err


@one
def test_csv(tramplab, image):
    lines = list(csv.DictReader(io.StringIO(tramplab(image, "--csv", "--hook", "none,ops,ops-regs")[1])))
    assert [n["hook"] for n in lines] == ["none"] * 5 + ["ops"] * 5 + ["ops-regs"]
    assert lines[-1]["status"] == "absent" and "ftrace_regs_caller" in lines[-1]["reason"]


@every
def test_trace_names_the_kernels_functions(tramplab, image):
    status, out, _ = tramplab(image, "--trace", "ops:2")
    assert status == 0 and max(map(len, out.splitlines())) <= WIDTH
    assert "ftrace_ops_list_func" in out and "[core]" in out and "callback  [callback]" in out
    status, out, err = tramplab(image, "--trace", "ops-regs")
    assert (status, out == "") in ((0, False), (2, True))
    assert ("was not measured" in err) == (status == 2)


@every
def test_calls_of_one_image_and_of_two(tramplab, image):
    status, out, _ = tramplab(image, "--calls", "ops:2")
    assert status == 0 and max(map(len, out.splitlines())) <= WIDTH
    assert re.search(r"\|      ftrace_ops_list_func\(\) \{$", out, re.M)
    status, out, _ = tramplab("diff", image, image, "--calls", "ops:2")
    assert status == 0 and max(map(len, out.splitlines())) <= WIDTH and "ftrace_ops_list_func() {" in out
    assert [line for line in out.splitlines() if line.startswith(("!", "     -"))] == [], "one image twice"
    status, out, err = tramplab(image, "--calls", "ops", "--hook", "ops")
    assert (status, out) == (2, "") and "leave --hook away" in err


@every
def test_the_lab_beside_it(tramplab, image):
    status, out, _ = tramplab(image, "--lab")
    assert status == 0 and "and the lab's v6.12 beside it" in out and "bpf-fentry           core" in out


@one
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_function", "has no function 'no_such_function'"),
        ("ftrace_caller", "ftrace_caller of .* cannot be traced, it is notrace, .* or assembly"),
        ("vfs_raed", "did you mean vfs_read"),
    ],
)
def test_a_function_that_cannot_be_traced(tramplab, image, name, said):
    status, out, err = tramplab(image, "--function", name)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert re.search(said, err) and len(err) < 2000


@one
def test_another_function(tramplab, image):
    """Its own BPF trampoline is made for it; what ops cost does not depend on it."""
    usual, other = (
        {row["hook"]: row for row in json.loads(tramplab(image, "--json", "--hook", "ops,ops:2", *more)[1])["hooks"]}
        for more in ((), ("--function", "bpf_fentry_test2"))
    )
    for hook in usual:
        assert usual[hook]["components"]["core"] == other[hook]["components"]["core"]


@every
def test_what_is_run_of_a_function_is_said_everywhere(tramplab, image, tmp_path):
    named = (image, "--function", "vfs_read", "--hook", "none,ops,bpf-fexit")
    said = "vfs_read() returns 0x5eed0001 at the first instruction of its body"
    out = tramplab(*named)[1]
    assert f"body: {said}" in out.replace("\n  ", " ") and max(map(len, out.splitlines())) <= WIDTH
    assert json.loads(tramplab(*named, "--json")[1])["body"].startswith(said)
    assert {line["body"] for line in csv.DictReader(io.StringIO(tramplab(*named, "--csv")[1]))} == {"returns at once"}
    assert said in tramplab(image, "--function", "vfs_read", "--trace", "ops")[1].replace("\n", " ")
    assert f"body: {said}" in tramplab("diff", image, *named)[1].replace("\n  ", " ")
    assert json.loads(tramplab("diff", image, *named, "--json")[1])["body"].startswith(said)
    usual = (image, "--hook", "none")
    assert "body:" not in tramplab(*usual)[1] and "body" not in json.loads(tramplab(*usual, "--json")[1])
    assert {line["body"] for line in csv.DictReader(io.StringIO(tramplab(*usual, "--csv")[1]))} == {"runs"}


@one
def test_several_images_beside_each_other(tramplab, image):
    status, out, err = tramplab(image, image, image, "--hook", "ops,ops-regs")
    assert (status, err) == (0, "") and max(map(len, out.splitlines())) <= WIDTH
    alone = json.loads(tramplab(image, "--json", "--hook", "ops,ops-regs")[1])
    (row,) = [n.split() for n in out.splitlines() if n.startswith("ops ")]
    assert row == ["ops", *[str(added(alone["hooks"][0])["instructions"])] * 3]
    assert "ops-regs in 1, 2, 3: not there" in out and f"3:{image}" in "".join(out.split())
    found = json.loads(tramplab(image, image, "--json", "--hook", "ops,ops-regs")[1])
    assert found == [{"image": str(image), **alone}] * 2
    lines = list(csv.DictReader(io.StringIO(tramplab(image, image, "--csv", "--hook", "ops")[1])))
    assert [n["image"] for n in lines] == [str(image)] * 10 and lines[:5] == lines[5:]


@one
@pytest.mark.parametrize("how", [(), ("--json",), ("--csv",)])
def test_an_image_that_cannot_be_opened_costs_the_others_nothing(tramplab, image, how):
    status, out, err = tramplab("nowhere", image, "/", "--hook", "ops", *how)
    assert status == 2 and [n.split(":")[1] for n in err.splitlines()] == [" there is no file nowhere", " / is a directory"]
    assert out and "nowhere" not in out and out.count("ops") >= 1
    status, out, err = tramplab("nowhere", "nowhere", *how)
    assert (status, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("image", ["x86_64"], indirect=True)
def test_estimates_and_what_the_model_does_not_know(tramplab, image):
    status, out, _ = tramplab(image, "--hook", "ops", "--core", "zen3")
    assert status == 0 and "cycles more, estimated on a model of zen3" in out
    status, _, err = tramplab(image, "--core", "cortex-a72")
    assert status == 2 and "arm64" in err


@every
def test_an_image_compared_with_itself(tramplab, image):
    status, out, _ = tramplab("diff", image, image)
    assert status == 0 and "No hook differs" in out
    assert json.loads(tramplab("diff", image, image, "--json")[1])["changes"] == []
