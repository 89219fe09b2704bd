"""The files in data/cores/: every number has a range, a kind and a source, and mistakes are told."""

from __future__ import annotations

import copy

import pytest
import yaml

from support.base.data import copied
from support.complaints import complaint
from tramplab import TramplabError, cli
from tramplab.base.paths import data_file
from tramplab.estimate import cores, cycles
from tramplab.lab.measure import run


@pytest.mark.parametrize(
    "model, name",
    [
        ("AMD EPYC 7763 64-Core Processor, family 25, model 1, stepping 1", "zen3"),
        ("AMD Ryzen 9 5950X 16-Core Processor, family 25, model 33, stepping 2", "zen3"),
        ("AMD Ryzen 9 7950X 16-Core Processor, family 25, model 97, stepping 2", "zen4"),
        ("AMD EPYC 9654 96-Core Processor, family 25, model 17, stepping 1", "zen4"),
        ("AMD Ryzen AI 9 HX 370, family 26, model 36, stepping 0", "zen5"),
        ("Intel(R) Core(TM) i7-6700K CPU @ 4.00GHz, family 6, model 94, stepping 3", "skylake"),
        ("Intel(R) Xeon(R) Processor, family 6, model 207, stepping 2", "golden-cove"),
        ("Raspberry Pi 4 Model B, CPU implementer 0x41, CPU variant 0x0, CPU part 0xd08", "cortex-a72"),
        ("Apple MacBook Pro, CPU implementer 0x61, CPU variant 0x1, CPU part 0x023", "apple-m1"),
        ("VisionFive 2, uarch sifive,u74-mc, mvendorid 0x489", "sifive-u74"),
        ("Banana Pi, uarch spacemit,x60, mvendorid 0x710", "spacemit-x60"),
        ("Intel(R) Xeon(R) Platinum 8380, family 6, model 106, stepping 6", None),
        ("AMD EPYC 7551, family 23, model 1, stepping 2", None),
        ("CPU implementer 0x41, CPU part 0xd0c", None),
        ("unknown", None),
    ],
)
def test_the_core_of_a_cpu(model, name):
    found = cores.of_cpu(model)
    assert (found and found.name) == name


@pytest.mark.parametrize("name", cores.cores())
def test_core_files(name):
    of = cores.get(name)
    assert set(of.parameters) <= set(cores.MEANINGS)
    assert 0.5 < of.clock_ghz < 7 and of["width"].value <= 10


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda f: f["parameters"].pop("load"), "parameters has no load."),
        (lambda f: f["parameters"].update(lod=f["parameters"]["load"]), "unknown parameter 'lod'; did you mean load"),
        (lambda f: f["parameters"]["load"].update(low=9), "load needs low <= value <= high"),
        (lambda f: f["parameters"]["load"].update(kind="guess"), "parameters, load, kind: unknown value 'guess'"),
        (lambda f: f["parameters"]["load"].update(sources=["nobody"]), "unknown source 'nobody'"),
        (lambda f: f["parameters"]["load"].update(sources=[]), "load needs a source"),
        (lambda f: f["uses"].pop("store"), "uses has no store"),
        (lambda f: f["ports"].append("p99"), "p99 must be one of the ports, and be used"),
    ],
)
def test_a_core_file_with_a_mistake(change, words):
    facts = yaml.safe_load((data_file("releases.yml").parent / "cores" / "zen3.yml").read_text("utf-8"))
    assert cores._read("zen3", copy.deepcopy(facts)).name == "zen3"
    change(facts)
    with pytest.raises(TramplabError, match=words):
        cores._read("zen3", facts)


def test_unknown_core():
    with pytest.raises(TramplabError, match="unknown core 'zen33'; did you mean zen3"):
        cores.get("zen33")
    with pytest.raises(TramplabError, match="zen3 is a core for x86_64, not arm64; choose one of apple-m1, cortex-a72"):
        cores.get("zen3", "arm64")
    with pytest.raises(TramplabError, match="zen3 is a core for x86_64; this call ran on arm64"):
        cycles.estimate(run("arm64", "ops"), run("arm64", "none"), cores.get("zen3"))


def test_a_bad_file_is_no_other_cores_trouble(tmp_path, monkeypatch, capsys):
    """Nor that of who lists them; who wants that core, or all of them, is told."""
    data = copied(tmp_path, monkeypatch)
    (data / "cores" / "zen3.yml").write_bytes(b"title: Zen 3\n# T\xf6pel\n")
    (data / "cores" / "zen4.yml").write_text("title: Zen 4\n", "utf-8")
    others = [path for path in sorted((data / "cores").glob("*.yml")) if path.stem not in ("zen3", "zen4")]
    good = {path.stem: yaml.safe_load(path.read_text("utf-8"))["isa"] for path in others}
    cores.tried.cache_clear()
    try:
        assert cores.get("zen5").name == "zen5" and cores.get("cortex-a72", "arm64").isa == "arm64"
        assert "cores/zen3.yml is not UTF-8" in complaint(lambda: cores.get("zen3"))
        assert "cores/zen4.yml: the file has no isa" in complaint(lambda: cores.get("zen4", "x86_64"))
        assert "unknown core 'zen6'; did you mean zen5" in complaint(lambda: cores.get("zen6"))
        choice = ", ".join(name for name, isa in good.items() if isa == "x86_64")
        assert f"choose one of {choice}." in complaint(lambda: cores.get("cortex-a72", "x86_64"))
        assert "cores/zen3.yml" in complaint(cores.cores)
        assert cores.of_cpu("AMD Ryzen AI 9 HX 370, family 26, model 36, stepping 0").name == "zen5"
        assert "cores/zen3.yml" in complaint(lambda: cores.of_cpu("AMD EPYC 7763, family 25, model 1"))
        assert cli.main(["list"]) == 0
        listed = capsys.readouterr().out
        assert f"Cores:     {' '.join(good)}\n" in listed
        assert "\nHooks:\n" in listed
        assert "\n           cores/zen3.yml is not UTF-8: byte 0xf6 in line 2, column 4.\n" in listed
        assert "\n           cores/zen4.yml: the file has no isa and no in_order and" in listed
        assert cli.main(["measure", "x86_64", "ops", "--core", "golden-cove"]) == 0
    finally:
        cores.tried.cache_clear()
