"""Whatever is done to whichever kept file: what comes of it is the same, one line says so, and the file is as it was."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from support.base.damage import damage
from support.base.forgetting import forget
from support.models import guests
from support.native.machines import result
from support.plugins.caches import lines
from support.plugins.seeds import drawn, seeds
from support.vmlinux.debian import package
from tramplab import isa as isas
from tramplab.base import cache
from tramplab.build import corpus
from tramplab.emulate import compiled
from tramplab.emulate.interleave import scheduler
from tramplab.estimate.measure import measure
from tramplab.grid import cached as units
from tramplab.grid.cells import Unit
from tramplab.native import cached as times
from tramplab.native import run as native
from tramplab.races.explore import explore
from tramplab.races.schemes.schemes import scheme
from tramplab.vmlinux.debian import fetch
from tramplab_book.studies import memo

RISCV = isas.get("riscv64")
UNIT, ANSWER = Unit("arm64", "ops", "v7.2", 1, (1,)), units.Answer((("ops",),))
#: To link an image takes seconds in a process that has not made it yet: `make test` does so in test_cache.py.
FUZZ = not settings.default.derandomize


#: What asks for files that are kept and take long to make, so that they are those of the usual cache.
COMPILED: dict[str, Callable[[], object]] = {
    "counts": lambda: [measure("riscv64", "bpf-fexit", "v7.2", 1, 1), measure("x86_64", "ops", "v7.2", 1, 1, core="zen3")],
    "states": lambda: explore(scheme("x86_64-store").subject(), 1).states,
    "turns": lambda: compiled.library(scheduler.SOURCE)._name.rpartition("/")[2],
    "text": lambda: corpus.compiled(RISCV, 2, ()),
    "child": lambda: native.child(RISCV).read_bytes(),
}


def linked() -> bytes:
    """An image, linked again of the objects that are kept."""
    guests.make("riscv64").unlink()
    return guests.make("riscv64").read_bytes()


def unit() -> object:
    store = units.Cached("state")
    if (found := store.load(UNIT)) is None:
        store.save(UNIT, ["hook"], ANSWER)
    return found or (["hook"], ANSWER)


def rows() -> list[int]:
    return memo.once(_numbers)()


def _numbers() -> list[int]:
    return [*range(100)]


class Kept:
    """A cache with files of every kind, and who asks for each."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._patch, self.folder, self._turn = patch, folder / "0", 0
        archive = folder / "archive"
        small = package(archive, "small", b"image" * 1000)
        own = result("x86_64", {"direct": 2.0})
        patch.setattr(times, "_timed", lambda: (own, own))
        patch.setattr(times, "_state", lambda: "now")
        patch.setattr(times.host, "isa", lambda: RISCV)
        patch.delenv(times.CHOICE, raising=False)
        quick = {
            "unit": unit,
            "rows": rows,
            "times": lambda: times.own(times.HOOKS).as_json(),
            "image": lambda: (fetch.fetch([small], archives=[archive.as_uri()]), fetch.content(small))[1],
            **({"objects": linked} if FUZZ else {}),
        }
        self.asking = COMPILED | quick
        usual = cache.folder()
        for ask in COMPILED.values():  # what is there already asks for no object
            ask()
        asked = {name: self._asked(ask) for name, ask in COMPILED.items()}
        for path in set().union(*asked.values()):
            shutil.copy(usual / path, self.folder)
        self.move()
        for ask in quick.values():
            ask()
        asked |= {name: self._asked(ask) for name, ask in quick.items()}
        self.files = {name: sorted(p for p in paths if FUZZ or p.suffix != ".elf") for name, paths in asked.items()}
        self.files["rows"] = [path.relative_to(self.folder) for path in (self.folder / "rows").glob("*.pickle")]
        self.said = {name: self.ask(name) for name in self.asking}

    def _asked(self, ask: Callable[[], object]) -> set[Path]:
        """The files that somebody asks for."""
        seen: list[Path] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cache, "place", lambda name, place=cache.place: seen.append(place(name)) or seen[-1])
            forget()
            ask()
        return {path.relative_to(cache.folder()) for path in seen}

    def ask(self, name: str) -> object:
        """What comes of a kind of files."""
        forget()
        return self.asking[name]()

    def move(self) -> None:
        """Put it elsewhere: what a process has loaded from a path it does not load from there again."""
        self._turn += 1
        self.folder = self.folder.rename(self.folder.with_name(str(self._turn)))
        (self.folder / "rows").mkdir(exist_ok=True)
        self._patch.setenv("TRAMPLAB_CACHE", str(self.folder))
        self._patch.setenv(memo.FOLDER, str(self.folder / "rows"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("kept")
        (folder / "0").mkdir()
        yield Kept(folder, patch)
    forget()


def said(capsys) -> list[str]:
    """The lines of the package, without what is shown of a long work."""
    return [text for text in capsys.readouterr().err.splitlines() if text.startswith("tramplab:")]


@drawn
def test_nothing_comes_of_a_damaged_file_but_what_came_of_the_whole_one(kept, capsys):
    """A thousand damages under `make fuzz`, each to a file of a kind that is drawn first."""
    for seed in seeds("kept files", settings.default.max_examples // 10):
        rng = random.Random(seed)
        kept.move()
        name = rng.choice([*kept.files])
        path = kept.folder / rng.choice(kept.files[name])
        other = (kept.folder / rng.choice(kept.files[rng.choice([*kept.files])])).read_bytes()
        whole = path.read_bytes()
        case = (seed, path.name, damage(path, other if other != whole else b"other", rng))
        assert kept.ask(name) == kept.said[name], case
        assert said(capsys) == lines(path.name), case
        assert path.read_bytes() == whole and not path.is_symlink(), case
        assert not list(kept.folder.glob(".building-*")), case


def test_every_kind_of_file_is_among_those_that_are_damaged(kept):
    """By their names; objects are there twice, as a corpus and of an image."""
    kinds = {path.name.partition("-")[0].removesuffix(".sha256") + path.suffix for paths in kept.files.values() for path in paths}
    assert kinds >= {"asm.bin", "types.json", "riscv64.program", "corpus.o", "native.json", "arm64.json"}
    assert {f"{name}.so" for name in ("meter", "pipeline", "scheduler", "search")} <= kinds
    assert {path.suffix for paths in kept.files.values() for path in paths} >= {".pickle", ".image"}
