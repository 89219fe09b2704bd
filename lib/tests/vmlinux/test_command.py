"""`tramplab kernel`: what it prints of an image that was fetched, and one sentence for what cannot be."""

import csv
import functools
import io
import json
import re

import pytest

from tramplab.vmlinux import command, saved
from tramplab.vmlinux.debian.fetch import content, there
from tramplab.vmlinux.debian.list import packages
from tramplab.vmlinux.result import machine_of
from tramplab.width import WIDTH

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
    monkeypatch.setattr(command, "machine_of", lambda path, mitigations="none": kept)
    return kept.opened.payload.path


every = pytest.mark.parametrize("image", ONE, indirect=True)
one = pytest.mark.parametrize("image", ["riscv64"], indirect=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "the following arguments are required: IMAGE"),
        (("a", "b"), "give one kernel image, or `diff` and two"),
        (("diff", "a"), "give one kernel image, or `diff` and two"),
        (("a", "--json", "--csv"), "--json, --csv, --trace and --lab are four ways to show a result: choose one"),
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
    assert status == 0 and {"package": published["package"], **found} == published


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
def test_the_lab_beside_it(tramplab, image):
    status, out, _ = tramplab(image, "--lab")
    assert status == 0 and "and the lab's v6.12 beside it" in out and "bpf-fentry       core" in out


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
