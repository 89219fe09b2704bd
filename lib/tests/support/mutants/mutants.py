"""What a broken lab kernel is: one text of the guest sources in place of another, and where its effect is looked for."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.abi import abi
from support.abi.abi_places import Place
from support.abi.decoded import instructions
from tramplab.build.toolchain import GUEST


@dataclass(frozen=True)
class Mutant:
    """One replacement in one file, and where its effect is looked for. old must occur exactly once. single: the way of a kernel
    that has one ops for all direct calls. overrides: features of its release that are set by hand."""

    isa: str
    release: str
    hook: str
    file: str
    what: str
    old: str
    new: str
    single: str = ""
    overrides: tuple[tuple[str, object], ...] = ()

    @property
    def place(self) -> Place:
        """The kernel it is of."""
        return Place(self.isa, self.release, (*self.overrides, *((("slow_path", self.single),) if self.single else ())))

    def __str__(self) -> str:
        return f"{self.place}-{self.hook}-{self.what.replace(' ', '_')}"


def of(isa: str, release: str, hook: str, file: str, *changes: tuple[str, str, str], **kernel) -> list[Mutant]:
    return [Mutant(isa, release, hook, file, *change, **kernel) for change in changes]


def copied(folder: Path, changing: str = "") -> Path:
    """The guest sources, to change with replace(): a file is a link to where it is as it was. changing: only what lies in the
    folder of this one is to be changed, and the other folders are links too."""
    guest = folder / "guest"
    guest.mkdir()
    for there in GUEST.iterdir():
        if there.is_dir() and changing.partition("/")[0] in ("", there.name):
            shutil.copytree(there, guest / there.name, copy_function=os.symlink)
        else:
            os.symlink(there, guest / there.name)
    return guest


def replace(source: Path, old: str, new: str) -> None:
    """Put one text of a copied file in place of another, which is there once."""
    text = source.read_text("utf-8")
    assert text.count(old) == 1, f"{source.name} has {text.count(old)} times {old!r}"
    assert source.is_symlink() or GUEST not in source.resolve().parents, f"{source.name} is the guest's own: see copied()"
    source.unlink()
    source.write_text(text.replace(old, new), "utf-8")


def broken(folder: Path, mutant: Mutant) -> Path:
    """The sources of a mutant."""
    guest = copied(folder, mutant.file)
    replace(guest / mutant.file, mutant.old, mutant.new)
    return guest


def survivors(place: Place, names: tuple[str, ...], noticed: Callable[[abi.Lab], bool]) -> list[str]:
    """The instructions of these symbols that nobody notices where they are NOPs, one after the other."""
    lab, survived = abi.Lab(place), []
    symbols = [lab.kernel.image.symbols[name] for name in names if name in lab.kernel.image.symbols]
    for i in [i for s in symbols for i in instructions(lab.isa, s.address, lab.machine.read(s.address, s.size))]:
        lab.machine.poke(i.address, lab.isa.nops[i.size])
        if noticed(lab):
            lab = abi.Lab(place)  # what the mutant left behind must not count again
        else:
            survived.append(i.text)
            lab.machine.poke(i.address, i.data)
    return survived
