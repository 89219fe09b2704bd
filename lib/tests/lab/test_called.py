"""What threads call hooks: each name leads to one that is here, and what is said of it is what releases have."""

import re

from tramplab.ftrace import releases
from tramplab.ftrace.arch.common import POOLS
from tramplab.isa import ISAS
from tramplab.lab.hooks import CALLED, HOOKS


def test_each_leads_to_a_hook():
    for name, said in CALLED.items():
        assert name not in HOOKS and set(re.findall(r"[\w-]+", said)) & set(HOOKS), name


def test_what_fprobes_and_kretprobes_are_built_on():
    """On every ISA fprobes are on the graph tracer in the newest release and never again on a return hook; some were on one, and
    so are some kretprobes."""
    fprobes, kretprobes = set(), set()
    for isa in ISAS.values():
        features = [releases.features(isa, release, {}) for release in releases.known()]
        built = [f["rethook"] for f in features]
        assert built[-1] == "fgraph" and not set(built[built.index("fgraph") :]) & set(POOLS)
        fprobes.update(built)
        kretprobes.update(f["kretprobe"] for f in features)
    assert fprobes & set(POOLS) and "rethook" in kretprobes
