"""The machine whose times the pages show in tests: a made-up one with long names and wide numbers, whatever the real one is.

A plugin of pytest, named in conftest.py. So no test waits for a quiet moment, none depends on what a cache has kept, and the
browser tests see a page that is as hard to lay out as any.
"""

import os
import shutil
import tempfile
from pathlib import Path

from support.native.machines import CPUS, ONE_DIGIT_MORE, Made, shaped
from tramplab.native import cached
from tramplab.trampolines import shapes

_UNQUIET = ("bpf-fentry:10", "direct+ops:10", "bpf-fmodret:10")


def pytest_configure(config):
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # the workers inherit the folder
    if kept_book := config.option.keep_book:
        folder = kept_book / "times"
        folder.mkdir(parents=True)
    else:
        folder = Path(tempfile.mkdtemp(prefix="tramplab-times-"))
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    rows = tuple(
        {**r, "agreed": r["agreed"] and r["hook"] not in _UNQUIET, "steady": r["hook"] != "bpf-fexit:10"}
        for r in ONE_DIGIT_MORE.rows
    )
    failures = ("direct-far hangs natively: it did not return in time and was last seen at lab_direct_far+0x14.",)
    facts = {**ONE_DIGIT_MORE.provenance, "virtualised": "QEMU Standard PC (Q35 + ICH9, 2009)"}
    Made(rows, ONE_DIGIT_MORE.clock, (), failures, facts).save(folder / "hooks.json")
    times = {str(s): 0.3 * 1.4**n for n, s in enumerate(shapes.GRID)}
    shaped("x86_64", times, cpu=CPUS["x86_64"][1], unquiet=("shape-2-0-balanced",)).save(folder / "shapes.json")
    os.environ[cached.CHOICE] = str(folder)
