"""The cases that models of cores are judged by: those that are saved are those of today's code."""

import copy

import pytest
from msgspec.structs import replace

from tramplab import TramplabError
from tramplab.estimate import cores, judged
from tramplab_book.studies.time import core_cases


def test_the_saved_cases_are_those_of_todays_code():
    """`tramplab update` writes data/core-cases.json anew."""
    assert core_cases.cases(core_cases.rows()) == list(judged.cases())


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda sets: sets.pop("intel-6-207-2-vm-hooks"), "judged_by lacks intel-6-207-2-vm-hooks, which was measured"),
        (lambda sets: sets.update({"intel-6-207-2-vm-hook": []}), "unknown set 'intel-6-207-2-vm-hook'; did you mean"),
        (lambda sets: sets.update({"intel-6-207-2-vm-hooks": ("fgraphs",)}), "unknown case 'fgraphs'; did you mean fgraph"),
    ],
)
def test_what_a_core_is_judged_by_is_there(change, message):
    core = cores.get("golden-cove")
    sets = copy.copy(core.judged_by)
    change(sets)
    made = replace(core, judged_by=sets)
    found = [c for c in judged.cases() if c.core == core.name]
    with pytest.raises(TramplabError, match=message):
        core_cases._checked(made, found)
