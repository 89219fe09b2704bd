"""What a booted process writes, read back: counts, refusals, who was called how often, and a boot that ends in the middle."""

from __future__ import annotations

import pytest

from tramplab.base.errors import TramplabError
from tramplab.boot import counted, plan, show, trials
from tramplab.boot.probes import PROBES
from tramplab.boot.qemu import INIT
from tramplab.isa import ISAS

HANDLERS = {"callback": 2, "kprobe_handler": 3}


def pairs(once, twice, n=3):
    """A line of counts on x86-64, whose counter has no unit larger than one."""
    return "counted" + n * f" {once:x} 0 {twice:x} 0"


def a_boot():
    yield from ("begin", "version", "| Linux version 7.2", "measured", "loop", pairs(3001, 6001))
    yield from ("before getpid", pairs(30_000, 60_000))
    yield from ("probe ops", "attached", "read", "| 5 0 0", "called", "| f 0 0", pairs(34_000, 68_000), "removed")
    yield from ("probe bpf-fentry", "code 1000 90c3", "refused 20c trace", "attached", "read", "hits 0 0", "called", "hits 0 0")
    yield from (pairs(30_000, 60_000), "removed", "refused 2 close")
    yield from ("probe function", "attached", "read", "| entries: 10", "| overrun: 1", "called", "| entries: 15", "| overrun: 6")
    yield from (pairs(80_000, 160_000), "removed", "after getpid", pairs(30_000, 60_000))


def test_a_boot_is_read():
    *_, booted = counted.read(ISAS["x86_64"], a_boot(), HANDLERS)
    assert (booted.version, booted.loop) == ("Linux version 7.2", 3.0)
    ops, fentry, function = booted.rows
    assert booted.added(ops) == 40 and ops.handlers == 2 and ops.hits == {"module": 1.0} and ops.measured.same == 3
    assert booted.added(fentry) is None and fentry.refused == [("ENOTSUPP", "trace")] and fentry.still == [("ENOENT", "close")]
    assert booted.added(function) == 500 and function.handlers is None and function.hits == {"records": 1.0}
    assert booted.before == booted.after


def test_a_boot_comes_step_by_step():
    """So that a panic costs only what would have come behind it."""

    def panics():
        for line in a_boot():
            if line == "probe function":
                raise TramplabError("the kernel is gone.")
            yield line

    seen = []
    with pytest.raises(TramplabError, match="gone"):
        seen.extend(counted.read(ISAS["x86_64"], panics(), HANDLERS))
    assert [row.probe.name for row in seen[-1].rows] == ["ops", "bpf-fentry"]
    assert "bpf-fentry: the kernel says ENOTSUPP to: trace" in show.text(seen[-1])


@pytest.mark.parametrize("isa, unit, turn", [("arm64", 16, 4), ("riscv64", 100, 3)])
def test_coarse_counters_are_read_between_their_units(isa, unit, turn):
    """A block ends within a unit of the counter: the turns until its next change are taken off."""
    once, twice = 336 * 100, 336 * 200
    words = []
    for taken in (once, twice):
        units = -(-taken // unit)
        words += [units, (units * unit - taken) // turn]
    line = "counted " + " ".join(f"{n:x}" for n in words)
    assert counted.measured(ISAS[isa], line, 100).instructions == pytest.approx(336, abs=turn / 100)


def test_hits_that_lack_are_told():
    *_, booted = counted.read(ISAS["x86_64"], (line.replace("| f 0 0", "| a 0 0") for line in a_boot()), HANDLERS)
    assert booted.rows[0].hits == {"module": 0.5} and "0.5 module, not 1 module" in show.text(booted)


def test_text_fits_a_mail():
    *_, booted = counted.read(ISAS["x86_64"], a_boot(), HANDLERS)
    assert max(map(len, show.text(booted).splitlines())) <= 72
    assert show.as_csv(booted).splitlines()[:2] == ["probe,added,handlers,alike,refused,step", "ops,40,2,3,,"]
    assert [row["probe"] for row in show.data(booted)["probes"]] == ["ops", "bpf-fentry", "function"]


def test_a_trial_is_read_up_to_a_panic():
    lines = ["begin", "| Linux version 7.2", "say plain", pairs(30_000, 60_000), "say called", "| 2 0 a", "| f (1)\t O", "hits 5 a"]
    lines += ["refused 16 write x", "[ 1.0] Kernel panic - not syncing: stack overflow"]
    read = list(trials.read(ISAS["x86_64"], lines))
    assert read == [
        ("plain", 300),
        ("called", [2, 0, 10]),
        ("called", "f (1) O"),
        ("called", [5, 10]),
        ("called", ("EINVAL", "write x")),
        ("called", "Kernel panic - not syncing: stack overflow"),
    ]
    assert "handlers called: 2" in show.trial_text(read) and max(map(len, show.trial_text(read).splitlines())) <= 72


def test_every_probe_has_steps_that_the_process_knows():
    """By the first words of init/init.c's description."""
    source = (INIT / "init.c").read_text("utf-8")
    steps = [step for probe in PROBES.values() for part in probe.parts for step in (*part.on, *part.off)]
    steps += [step for trial in trials.TRIALS.values() for step in trial.steps]
    for word in {step.split()[0] for step in steps}:
        assert f'same(what, "{word}")' in source
    assert len(PROBES) >= 45 and plan.BLOCKS % 2
