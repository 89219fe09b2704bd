"""A patch's verdict: what differs between two kernels, as text, as JSON and as an exit status."""

import json
import re

import pytest

from tramplab.base import cache
from tramplab.kbuild import build, patch, verdict

ISAS = tuple(build.ARCHES)


def row(hook, instructions, **symbols):
    counts = {"instructions": instructions, "loads": 1, "stores": 1, "branches_taken": 0}
    nothing = dict.fromkeys(counts, 0)
    return {
        "hook": hook,
        "status": "measured",
        "components": {"site": nothing, "trampoline": counts, "core": nothing},
        "symbols": {name: (n,) for name, n in symbols.items()},
        "frame_bytes": 64,
        "stack_bytes": 64,
        "return_mispredicts": {"own": 0},
    }


def look(isa, hooks, probes=None, trials=None, text=1000):
    kernel = {"isa": isa, "mitigations": "none", "booted": []}
    out = {"text": text, "sites": 10, "result": {"kernel": kernel, "function": "f", "hooks": hooks}, "explored": {"scheme": "safe"}}
    return out | ({"probes": probes, "trials": trials, "unseen": ["why"]} if probes else {})


def kernel(isa, name=""):
    patches, key = (name,) * bool(name), f"{isa}{name}"
    built = build.Built(
        isa=isa, release="6.12.3", digest="0", patches=patches, options={}, without=(), compiler="gcc 12", key=key, seconds=1
    )
    for path in (built.image, built.vmlinux):
        cache.publish(lambda folder: written(folder / "file", f"{isa}{name.removesuffix('same')}"), f"built/{path.name}")
    return built


def written(path, text):
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def patched(tramplab, monkeypatch, tmp_path):
    """The command, with kernels that are not built and looks that are given: (looks without, looks with) by ISA."""

    def run(looks, *words, name="x.patch"):
        def kernels(path, series, wanted, tick):
            return [tuple(kernel(one.isa, name if some else "") for some in series) for one in wanted]

        monkeypatch.setattr(build, "kernels", kernels)
        monkeypatch.setattr(patch, "looked", lambda kernel, boot, told: looks[kernel.isa][bool(kernel.patches)])
        monkeypatch.chdir(tmp_path)
        written(tmp_path / name, "")
        return tramplab("patch", ".", name, *words)

    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / "cache"))
    return run


def test_what_changed_is_shown_and_what_did_not_is_counted(patched):
    before, after = (
        look("arm64", [row("ops", n, ftrace_caller=n), row("none", 0)], {"ops": 50, "graph": graph}, {"guard-lost": [left, "x"]})
        for n, graph, left in ((44, 9, "44"), (46, 12, "145"))
    )
    status, out, err = patched({"arm64": (before, after)}, "--isa", "arm64")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[:2] == ["x.patch on Linux 6.12.3", ""] and max(map(len, lines)) <= 72
    for line in (
        "  bytes of functions: no change",
        "  hooks in the image, instructions: 2 compared, 1 change",
        "    ops: 44 -> 46 (ftrace_caller 44 -> 46)",
        "  ways of patching, explored: no change",
        "    graph: 9 -> 12",
        "    guard-lost: 44 -> 145",
        "  not looked at, why",
    ):
        assert line in lines
    assert "Not looked at:" in out and " tramplab patch" in out and out.endswith("--isa arm64\n")


@pytest.mark.parametrize("most, status", [("1", 1), ("3", 0)])
def test_a_hook_or_probe_that_grows_too_much_is_an_exit_status(patched, most, status):
    before, after = (look("arm64", [row("ops", n)], {"graph": n}, {"t": ["1"]}, text=1000 * n) for n in (10, 13))
    assert patched({"arm64": (before, after)}, "--isa", "arm64", "--fail-above", most)[0] == status


def test_the_same_bytes_are_not_looked_at(patched):
    status, out, _ = patched({}, name="same")
    assert status == 0 and out.count("  the boot image, byte by byte: no change") == 3


def test_three_isas_with_everything_changed_are_sixty_lines(patched):
    names, looks = [f"h{n}" for n in range(40)], {}
    for isa in ISAS:
        looks[isa] = tuple(
            look(isa, [row(name, n, f=n) for name in names], dict.fromkeys(names, n), {name: [str(n)] for name in names}, n)
            for n in (1, 2)
        )
    status, out, _ = patched(looks)
    assert status == 0 and len(out.splitlines()) <= 60 and out.count("compared, 40 changes, the first") == 9
    status, out, _ = patched(looks, "--json")
    found = {of["isa"]: [len(part["changes"]) for part in of["parts"]] for of in json.loads(out)}
    assert found == {isa: [1, 0, 40, 0, 40, 40] for isa in ISAS}


def test_of_long_texts_both_are_shown():
    looks = [look("arm64", [], {"graph": 9}, {"t": [f"{word} {'and so on ' * 9}"]}) for word in ("panic", "calls")]
    found = verdict.parts(*looks)
    of = verdict.Verdict(patches=("x",), isa="arm64", release="6.12", compiler="gcc", before="0", after="1", parts=tuple(found))
    (line,) = (line for line in verdict.text([of], 60) if line.startswith("    t: "))
    assert re.fullmatch(r"    t: panic and so on .*\.\.\. -> calls and so on .*\.\.\.", line) and len(line) <= 72


def test_less_than_an_instruction_is_no_change():
    """Readings of a trial, one of which is a text, and probes."""
    looks = [look("arm64", [row("ops", 1)], {"graph": 9 + n / 25}, {"t": [4 + n / 2, "x"]}) for n in (0, 1, 2)]
    found = [[change for part in verdict.parts(looks[0], after) for change in part.changes] for after in looks]
    assert found == [[], [], [("t", 4, 5, "")]]


def test_a_hook_that_a_kernel_lacks_is_a_change_and_no_growth():
    absent = row("ops", 1) | {"status": "absent", "reason": "no such function"}
    found = verdict.parts(look("arm64", [row("ops", 1)]), look("arm64", [absent]))
    hooks = next(part for part in found if "hooks" in part.name)
    assert hooks.changes == (("ops", 1, "not measured", "after: no such function"),) and hooks.growth == 0
