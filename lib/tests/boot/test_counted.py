"""What a booted process writes, read back: counts, refusals, who was called how often, a boot that ends in the middle, and a
console that damages it."""

from __future__ import annotations

import pytest

from tramplab.base.errors import TramplabError
from tramplab.boot import counted, plan, protocol, readings, show, trials
from tramplab.boot.counted import Row
from tramplab.boot.probes import PROBES
from tramplab.boot.qemu import INIT
from tramplab.isa import ISAS

HANDLERS = {"callback": 2, "kprobe_handler": 3}
SOME = ("ops", "bpf-fentry", "function")
#: What a kernel may write between any two of our bytes.
MESSAGE = "[   12.345678] random: crng init done"


def pairs(once, twice, n=plan.BLOCKS):
    """A line of counts on x86-64, whose counter has no unit larger than one."""
    return "counted" + n * f" {once:x} 0 {twice:x} 0"


IDLE = pairs(30_000, 60_000)


NO_HITS = "hits programs 0 event 0"


def a_boot(again=IDLE):
    yield from ("version", "| Linux version 7.2", "modules", "measured", "loop", pairs(3000, 6000))
    yield from ("before getpid", IDLE)
    yield from ("probe ops", "attached", "read", "| called 5 missed 0 odd 0", "called", "| called f missed 0 odd 0")
    yield from (pairs(34_000, 68_000), "removed", "again", again)
    yield from ("probe bpf-fentry", "code 1000 90c3", "refused 20c trace", "attached", "read", NO_HITS, "called", NO_HITS)
    yield from (IDLE, "removed", "refused 2 close", "again", IDLE)
    yield from ("probe function", "attached", "read", "| entries: 10", "| overrun: 1", "called", "| entries: 15", "| overrun: 6")
    yield from (pairs(80_000, 160_000), "removed", "again", IDLE, "after getpid", IDLE)


def rows(*names):
    return [Row(PROBES[name]) for name in names or SOME]


def read(lines, of=None):
    """The boot as it is at its end."""
    *_, booted = counted.read(ISAS["x86_64"], lines, HANDLERS, rows() if of is None else of)
    return booted


def test_a_boot_is_read():
    booted = read(a_boot())
    assert (booted.version, booted.loop) == ("Linux version 7.2", 3.0)
    ops, fentry, function = booted.rows
    assert booted.added(ops) == 40 and ops.handlers == 2 and ops.hits == {"module": 1.0} and ops.measured.same == plan.BLOCKS
    assert booted.added(fentry) is None and fentry.refused == [("ENOTSUPP", "trace")] and fentry.still == [("ENOENT", "close")]
    assert booted.added(function) == 500 and function.handlers is None and function.hits == {"records": 1.0}
    assert booted.before == booted.after and not any(map(booted.left, booted.rows))


def test_a_boot_comes_step_by_step():
    """So that a panic costs only what would have come behind it."""

    def panics():
        for line in a_boot():
            if line == "probe function":
                raise TramplabError("the kernel is gone.")
            yield line

    seen, kept = [], rows()
    with pytest.raises(TramplabError, match="gone"):
        seen += (len(booted.rows) for booted in counted.read(ISAS["x86_64"], panics(), HANDLERS, kept))
    assert seen == [1, 2] and kept[1].refused


def test_a_probe_that_leaves_something_in_the_call_is_marked():
    """As a jump does that the kernel has not yet taken out of the text."""
    booted = read(a_boot(again=pairs(35_000, 70_000)))
    said = " ".join(show.text(booted).split())
    assert "ops: when it has been removed, a call executes 50 more instructions than before" in said
    assert [row.get("left") for row in show.data(booted)["probes"]] == [50, None, None]


def test_an_absent_probe_is_a_row():
    booted = read(
        a_boot(), [Row(PROBES["bpf-fmodret"], absent="nothing to trace"), *rows(), Row(PROBES["graph"], absent="no room")]
    )
    assert [row.probe.name for row in booted.rows] == ["bpf-fmodret", *SOME, "graph"]
    assert "bpf-fmodret: nothing to trace" in show.text(booted)
    assert show.as_csv(booted).splitlines()[1] == "bpf-fmodret,,,,,,,nothing to trace"


def damage(lines):
    """Every line of a console damaged in every way: (what was done, at which line, the console)."""
    for at, line in enumerate(lines):
        before, after = lines[:at], lines[at + 1 :]
        words = line.split(" ")
        for cut in range(1, min(len(words), 4)):
            yield "between", line, [*before, f"{' '.join(words[:cut])} {MESSAGE}", " ".join(words[cut:]), *after]
        yield "torn", line, [*before, line[: len(line) // 2], *after]
        yield "junk", line, [*before, line + " \x1b[0m\x00zz", *after]
        yield "stuck", line, [*before, MESSAGE + line, *after]
        yield "short", line, [*before, *([" ".join(words[:-1])] if words[1:] else []), *after]
        yield "again", line, [*before, line, line, *after]
        yield "gone", line, [*before, *after]


def test_a_damaged_console_is_one_sentence_or_costs_nothing():
    """Nothing is believed that the process did not write, and nothing ends in a traceback."""
    good, tried = [read(a_boot()).added(row) for row in read(a_boot()).rows], 0
    for how, line, console in damage(list(a_boot())):
        tried += 1
        try:
            booted = read(console)
        except TramplabError as e:
            assert str(e).count("\n") == 0 and protocol.FEWER in str(e), (how, line)
            continue
        found = [booted.added(row) for row in booted.rows]
        assert found == good or "refused" in line, (how, line)
    assert tried > 300


@pytest.mark.parametrize("at", [0, 5, 12, 30])
def test_messages_between_lines_cost_nothing(at):
    lines = list(a_boot())
    assert read([*lines[:at], MESSAGE, "", *lines[at:]]) == read(lines)


def test_an_empty_boot_is_no_success():
    with pytest.raises(TramplabError, match="the count of ops and 2 more did not arrive"):
        read([])
    with pytest.raises(TramplabError, match="the count of a call without a probe did not arrive"):
        read([], [])
    with pytest.raises(TramplabError, match="the reading of plain did not arrive"):
        list(readings.read(ISAS["x86_64"], [], trials.TRIALS["guard-lost"]))


def test_what_the_kernel_says_of_a_module_is_kept():
    lines = list(a_boot())
    at = lines.index("measured")
    refused = [*lines[:at], "[ 6.1] tramplab: disagrees about version of symbol", "refused 8 module tramplab.ko", *lines[at:]]
    booted = read(refused)
    assert booted.refused == [("ENOEXEC", "module tramplab.ko")] and "disagrees" in booted.words[0]
    assert [row.absent for row in booted.rows] == ["the kernel refused our module", "", ""]


@pytest.mark.parametrize("isa, unit, turn", [("arm64", 16, 4), ("riscv64", 100, 3)])
def test_coarse_counters_are_read_between_their_units(isa, unit, turn):
    """A block ends within a unit of the counter: the turns until its next change are taken off. The first one ends just after a
    change, the second one with one."""
    once, twice = 33_601, 67_200
    words = [n for taken in (once, twice) for n in (-(-taken // unit), -taken % unit // turn)]
    line = "counted " + " ".join(f"{n:x}" for n in words)
    expected = (twice - once) / 100
    assert counted.measured(ISAS[isa], protocol.line(line), 100).instructions == pytest.approx(expected, abs=turn / 100)
    assert (unit - 1) / 100 > 3 * turn / 100  # what it would be off without them


def test_pairs_that_differ_by_a_tenth_are_not_alike():
    """A timer interrupt in one of them is hundreds of instructions; a page of a buffer that begins a few."""
    words = [*(30_000, 60_000), *(30_000, 60_000), *(30_000, 60_004), *(30_000, 60_010), *(30_000, 60_400)]
    line = protocol.line("counted " + " ".join(f"{n:x} 0" for n in words))
    assert counted.measured(ISAS["x86_64"], line, 100) == counted.Measured(300.04, 3)


def test_hits_that_lack_are_told():
    booted = read(line.replace("called f", "called a") for line in a_boot())
    assert booted.rows[0].hits == {"module": 0.5} and "0.5 module, not 1 module" in show.text(booted)


def test_text_fits_a_mail():
    booted = read(a_boot())
    assert max(map(len, show.text(booted).splitlines())) <= 72
    assert show.as_csv(booted).splitlines()[:2] == ["probe,added,handlers,alike,left,refused,step,absent", "ops,40,2,31,,,,"]
    assert [row["probe"] for row in show.data(booted)["probes"]] == ["ops", "bpf-fentry", "function"]


def test_a_trial_is_read_up_to_a_panic():
    lines = ["| Linux version 7.2", "say plain", IDLE, "say guarded", "| called 2 missed 0 odd a", "| f (1)\t O"]
    lines += ["hits programs 5 event a", "refused 16 write x", "[ 1.0] Kernel panic - not syncing: stack overflow"]
    read = []
    with pytest.raises(TramplabError, match="the reading of guarded-and-plain did not arrive"):
        read += readings.read(ISAS["x86_64"], lines, trials.TRIALS["guard-lost"])
    assert read == [
        ("plain", readings.Executed(300)),
        ("guarded", readings.Module(called=2, missed=0, odd=10)),
        ("guarded", readings.Line("f (1) O")),
        ("guarded", readings.Hits(programs=5, event=10)),
        ("guarded", readings.Refused("EINVAL", "write x")),
        ("guarded", readings.Panic("Kernel panic - not syncing: stack overflow")),
    ]
    assert "handlers called: 2" in show.trial_text(read) and max(map(len, show.trial_text(read).splitlines())) <= 72


@pytest.mark.parametrize("name", trials.TRIALS)
def test_a_damaged_trial_is_one_sentence(name):
    trial = trials.TRIALS[name]
    lines = [f"say {label}" for label in readings.labels(trial)]
    assert not list(readings.read(ISAS["x86_64"], lines, trial))
    for how, line, console in damage(lines[:3]):
        with pytest.raises(TramplabError, match=r"console|did not arrive"):
            list(readings.read(ISAS["x86_64"], [*console, *lines[3:]], trial))
            pytest.fail(f"{how}: {line}")


def test_every_probe_has_steps_that_the_process_knows():
    """By the first words of init/init.c's description."""
    source = (INIT / "init.c").read_text("utf-8")
    steps = [step for probe in PROBES.values() for part in probe.parts for step in (*part.on, *part.off)]
    steps += [step for trial in trials.TRIALS.values() for step in trial.steps]
    for word in {step.split()[0] for step in steps}:
        assert f'same(what, "{word}")' in source
    assert len(PROBES) >= 45 and plan.BLOCKS % 2
