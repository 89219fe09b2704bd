"""The wheels of the lab and of the book, each outside any checkout, with what it requires and nothing else."""

import json
import re
import shutil
import subprocess
import zipfile

import pytest

from support import ROOT
from support.book.environments import outside, unpacked
from tramplab.vmlinux.debian.fetch import content, there
from tramplab.vmlinux.debian.list import plain

PACKAGE = next(p for p in plain() if p.one and p.isa == "x86_64")
#: Words of a command of the lab -> what it prints; IMAGE is a kernel image, beside the folder in which the commands run.
COMMANDS = {
    "list": r"(?s)^ISAs:      x86_64 arm64 riscv64$.*^Functions: no_args(?!.*^Studies:)",
    "cores": r"^arm64 +cortex-a72 +\d+",
    "measure x86_64 ops": r"^core +\d+",
    "trace arm64 direct --calls": r"one_arg\(\); .* function",
    "grid --isa riscv64 --hook ops --args 1 --callbacks 1 --quiet": r"^riscv64,.*ops,",
    "explore arm64-call-ops": r"^arm64-call-ops",
    "registers x86_64 kprobe_ftrace_handler": r"^ +sp +true",
    "native none --windows 1 --rounds 10": r"^none ",
    "kernel IMAGE --hook ops": r"\bops +\w+",
    "kernel diff IMAGE IMAGE": r"^No hook differs",
    "boot IMAGE --probe ops": r"^ops ",
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Both, by the name of the package; a build of wheels leaves no file behind in the checkout but in _build."""
    folder = tmp_path_factory.mktemp("wheels")
    done = subprocess.run(["make", "-s", "wheels", f"WHEELS={folder}"], cwd=ROOT, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-2000:]
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


@pytest.fixture(scope="module")
def lab(wheels, tmp_path_factory):
    return unpacked(tmp_path_factory.mktemp("lab") / "venv", [wheels["tramplab"]])


@pytest.fixture(scope="module")
def both(wheels, tmp_path_factory):
    return unpacked(tmp_path_factory.mktemp("both") / "venv", [*wheels.values()])


@pytest.fixture
def command(tmp_path):
    """Runs a command by the Python of an environment, in an empty folder; returns its status and what it prints."""

    def run(python, *words):
        (tmp_path / "empty").mkdir(exist_ok=True)
        program = [python, "-m", "tramplab", *words]
        done = subprocess.run(program, cwd=tmp_path / "empty", env=outside(), capture_output=True, encoding="utf-8")
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.parametrize("words", COMMANDS)
def test_the_lab_alone_runs_its_commands(lab, command, tmp_path, words):
    if "IMAGE" in words:
        if not there(PACKAGE) or (words.startswith("boot") and not shutil.which("qemu-system-x86_64")):
            pytest.skip(f"{PACKAGE.name} is not fetched, or there is no QEMU")
        (tmp_path / "bzImage").write_bytes(content(PACKAGE))
    status, out, err = command(lab, *words.replace("IMAGE", "../bzImage").split())
    assert status == 0 and re.search(COMMANDS[words], out, re.M), (out[-2000:], err[-2000:])


@pytest.mark.parametrize("environment", ["lab", "both"])
def test_the_version_names_edition_and_commit(environment, command, request):
    status, out, _ = command(request.getfixturevalue(environment), "--version")
    head = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, encoding="utf-8").stdout
    assert status == 0 and re.fullmatch(rf"tramplab 0\.1, commit {head[:12]}( with changes)?\n", out)


def test_what_the_book_adds_is_named_where_it_is_not(lab, command):
    for words in (["run", "callbacks", "--format", "csv"], ["cite", "s5"], ["findings"]):
        status, out, err = command(lab, *words)
        assert (status, out) == (2, "") and err.endswith("install its package, tramplab-book, beside this one.\n"), words
    assert "tramplab-book is not installed" in command(lab, "--help")[1].replace("\n", " ").replace("  ", "")


def test_nothing_is_saved_among_what_is_installed(lab, command):
    status, _, err = command(lab, "native", "--save")
    assert status == 2 and "lies in no checkout of the book" in err


def test_the_book_runs_and_cites_outside_a_checkout(both, command):
    """Numbers come from a run, titles from pages that the wheel has; only what rewrites a checkout wants one."""
    rows = json.loads(command(both, "run", "counting", "--format", "json")[1])["rows"]
    assert {row["isa"] for row in rows} == {"x86_64", "arm64", "riscv64"}
    for words in (["cite", "fig-callbacks"], ["cite", "method"]):
        status, out, _ = command(both, *words)
        assert status == 0 and re.search(r"(?m)^Tramplab, edition 0\.1, commit [0-9a-f]{12}", out)
    assert re.search(r"(?m)^Studies:$", command(both, "list")[1])
    status, _, err = command(both, "update", "counting")
    assert status == 2 and "work in one, or set TRAMPLAB_DATA" in err


def test_each_wheel_has_its_part_of_the_data(wheels):
    """No file of data/ is in neither, and none in both."""
    brought = {name: {n for n in zipfile.ZipFile(path).namelist() if f"{name}/data/" in n} for name, path in wheels.items()}
    lab, book = ({n.partition("/data/")[2] for n in brought[name]} for name in ("tramplab", "tramplab_book"))
    tracked = subprocess.run(["git", "-C", str(ROOT), "ls-files", "data"], capture_output=True, encoding="utf-8").stdout.split()
    assert lab & book == set() and lab | book == {name.partition("/")[2] for name in tracked}
    assert {"releases.yml", "core-cases.json"} <= lab and {"claims.yml", "permalinks.txt"} <= book
