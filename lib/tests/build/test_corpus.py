"""The corpus of text: sizes that are those of a real kernel's functions, the same every time, and sites where the compiler was
asked to put them."""

import numpy as np
import pytest

from support.abi.decoded import instructions
from tramplab.base import documents
from tramplab.build import corpus
from tramplab.isa import ISAS

#: ISA -> bytes of its shortest instruction, and flags for a pointer of eight bytes before the entry and eight at it.
SITES = {
    "x86_64": (1, ("-fpatchable-function-entry=16,8", "-falign-functions=8")),
    "arm64": (4, ("-fpatchable-function-entry=4,2", "-falign-functions=8")),
    "riscv64": (2, ("-fpatchable-function-entry=8,4", "-falign-functions=8")),
}
FILE = documents.read(corpus.FILE)


def test_sizes_are_those_of_the_kernel():
    """Each percentile of the file to a byte or two of rounding, and so the mean, within what is lost of the largest."""
    sizes = corpus.sizes()
    assert len(sizes) == corpus.FUNCTIONS >= 2000
    for percent, size in FILE["sizes"]:
        if 0 < percent < 99.5:
            assert np.percentile(sizes, percent) == pytest.approx(size - FILE["site"], rel=0.02, abs=1)
    assert np.mean(sizes) == pytest.approx(FILE["mean"] - FILE["site"], rel=0.05)


def test_the_file_is_a_distribution():
    percents, sizes = zip(*FILE["sizes"], strict=True)
    assert list(percents) == sorted(set(percents)) and (percents[0], percents[-1]) == (0, 100)
    assert list(sizes) == sorted(sizes) and sizes[0] >= FILE["site"]
    assert sizes[0] < FILE["mean"] < sizes[-1]


def test_neighbours_are_not_alike():
    """Sizes come in no order: neighbours have nothing to do with each other, as in a text."""
    sizes = np.log(corpus.sizes())
    assert abs(np.corrcoef(sizes[:-1], sizes[1:])[0, 1]) < 0.1


@pytest.mark.parametrize("isa", SITES)
def test_what_is_compiled_has_the_sizes_wanted(isa):
    step, _ = SITES[isa]
    made = corpus.compiled(ISAS[isa], step, ())
    found = {f.name: f.size for f in made.functions}
    off = [found[f"f{n}"] - size for n, size in enumerate(corpus.sizes())]
    assert len(found) == corpus.FUNCTIONS and max(map(abs, off)) <= 24
    assert np.median(list(found.values())) == pytest.approx(np.median(corpus.sizes()), rel=0.15)


@pytest.mark.parametrize("isa", SITES)
def test_nops_lie_where_a_site_was_asked_for(isa):
    """Eight bytes before and eight at each entry are what an ISA does nothing with, and the entry is aligned to eight."""
    record, (step, flags) = ISAS[isa], SITES[isa]
    made = corpus.compiled(record, step, flags)
    for function in made.functions:
        assert function.start % 8 == 0
        for at in (function.start - 8, function.start):
            found = instructions(record, at, made.text[at : at + 8])
            assert {i.mnemonic.removeprefix("c.") for i in found} == {"nop"}, function.name


def test_optimising_changes_no_layout(monkeypatch):
    """Nothing in the corpus can be optimised away: sites, pointers and alignment are as with the kernel's -O2."""
    monkeypatch.setattr(corpus, "FUNCTIONS", 60)
    monkeypatch.setattr(corpus, "sizes", lambda sizes=corpus.sizes: sizes(60))
    for isa, (step, flags) in SITES.items():
        plain, best = (corpus.compiled(ISAS[isa], step, (*flags, *level)) for level in ((), ("-O2", "-fno-optimize-sibling-calls")))
        for made in (plain, best):
            gaps = [b.start - 8 - a.start - a.size for a, b in zip(made.functions, made.functions[1:], strict=False)]
            assert all(0 <= gap < 16 for gap in gaps) and all(f.start % 8 == 0 for f in made.functions)
        assert [f.name for f in plain.functions] == [f.name for f in best.functions]


def test_the_source_is_the_same_every_time():
    sizes = corpus.sizes()
    assert corpus.source(sizes) == corpus.source(list(sizes))
    assert corpus.source(sizes).count("void f") == len(sizes)
