"""The times of all hooks that are saved: the table has every one, and one command takes all that pages compare."""

import re

import pytest

from support import ROOT
from tramplab.isa import get
from tramplab.native import cached, default_hooks
from tramplab_book.studies.time import native_hooks

SAVED = cached.saved(cached.HOOKS)


@pytest.mark.parametrize("name", [name for name in SAVED if name.endswith("-hooks")])
def test_the_table_of_a_file_of_all_hooks_has_all(name):
    """Those that were not timed as a number of others."""
    result = SAVED[name]
    facts, timed = result.provenance, {str(r["hook"]) for r in result.rows}
    absent = set(default_hooks(get(str(facts["isa"])), str(facts["release"]))) - timed
    others = {f"{len(absent)} others"} if absent else set()
    table = native_hooks.table(native_hooks.frame({name: result}))
    assert set(table["hook"].str.rstrip(" *?")) == timed - {"none"} | others


def test_one_command_takes_all_that_pages_compare():
    """Of the newest release, and of those that differ in how a site leads to a trampoline."""
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\nnative:")[2].partition("\n\n")[0]
    assert tuple(re.search(r"for release in (.*); do", recipe)[1].split()) == native_hooks._WAYS
    assert {"direct", "bpf-fexit"} <= set(recipe.split()) and "--shapes" in recipe
