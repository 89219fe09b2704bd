"""Copies of data/, to be damaged, and how each of its files is read."""

import shutil
from pathlib import Path

from support import ROOT
from tramplab import native
from tramplab.base.paths import data_file
from tramplab.boot import replays_saved
from tramplab.boot import saved as booted
from tramplab.boot.jit import saved as jit_saved
from tramplab.build import corpus
from tramplab.estimate import cores, judged
from tramplab.ftrace import addresses, facts
from tramplab.kbuild import saved as patches
from tramplab.sparsity.context import programs
from tramplab.vmlinux.debian import list as listed
from tramplab.vmlinux.saved import frames_saved, probes_saved, races_saved, saved, structs, walks_saved

DATA = ROOT / "data"
#: What the book alone has of them, which support/publish/data.py reads.
BOOKS = ("claims.yml", "findings/*.yml", "published.csv")
#: What the lab reads as facts, by its name in data/.
FILES = sorted(
    p.relative_to(DATA).as_posix()
    for p in DATA.rglob("*")
    if p.suffix in (".yml", ".json", ".csv") and not any(p.match(f"data/{pattern}") for pattern in BOOKS)
)
_READERS = {
    "addresses.yml": addresses.data.__wrapped__,
    "context-programs.yml": programs._data.__wrapped__,
    "function-sizes.yml": corpus.sizes,
    "core-cases.json": judged.cases.__wrapped__,
    "kernel-frames.json": frames_saved.read,
    "kernel-probes.json": probes_saved.read,
    "kernel-walks.json": walks_saved.read,
    "kernel-structs.json": structs.read,
    "booted/guard-fix.json": booted.guard_fix.__wrapped__,
    "booted/list-not-ended.json": booted.list_not_ended.__wrapped__,
    "booted/replays.json": replays_saved.read,
    "booted/segment-fix.json": booted.segment_fix.__wrapped__,
    "built/patches.json": patches.verdicts.__wrapped__,
    "kbuild/tried.yml": patches.tried,
    "bpf-trampolines.json": lambda: jit_saved.read(),
    "kernel-races.json": races_saved.read,
    "kernels/packages.yml": listed.packages.__wrapped__,
    "releases.yml": facts.data.__wrapped__,
}


def copied(folder: Path, monkeypatch) -> Path:
    """A copy of data/ that this process reads from now on, with what lies beside it."""
    shutil.copytree(DATA, folder / "data", ignore=shutil.ignore_patterns("expected"))
    shutil.copy(ROOT / "CITATION.cff", folder)
    monkeypatch.setenv("TRAMPLAB_DATA", str(folder / "data"))
    return folder / "data"


def read(name: str) -> object:
    """What the lab makes of a file, read anew; TramplabError where it refuses it."""
    if name in _READERS:
        return _READERS[name]()
    kind, stem = Path(name).parent.name, Path(name).stem
    if kind == "cores":
        return cores._read(stem, cores.documents.read(name))
    if kind == "booted":
        return booted.read(next(p for p in listed.packages() if p.name == stem))
    if kind == "kernels":
        return saved.read(next(p for p in listed.packages() if p.name == stem))
    return native.load(data_file(name))
