"""Analyses of recorded calls and of kernels: estimates, unwinding, patching races, register structures, probes on returns,
contention."""

from .. import signatures

#: Rooms whose public functions hold what they are given against its types -> modules of which only constructors do, since the
#: explorer or the verifier of BPF programs calls them for every instruction.
INNER = {
    "contention": (),
    "races": ("automaton", "cpu", "executions", "fetches", "judge", "locals", "threads"),
    "returns": (),
    "sparsity": ("context.arithmetic", "context.helping", "context.state"),
}

for _room, _inner in INNER.items():
    signatures.hold(f"{__name__}.{_room}", _inner)
