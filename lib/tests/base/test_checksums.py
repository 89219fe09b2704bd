"""The list of checksums: it is of what data/ says now, and what was changed is told by file and row."""

from support import ROOT
from support.data import DATA, copied
from tramplab import checksums

LISTED = (DATA / checksums.FILE).read_text("utf-8")


def test_data_is_as_listed():
    """`make update` was run after the last change of data/, so that the change of this list shows it in a review."""
    changed = checksums.changes(LISTED)
    assert changed == [], f"{'; '.join(changed[:12])}: if that is meant, run `make update`, and look at git diff data/"
    assert checksums.text() == LISTED, "the list has another order or head: run `make update`"


def test_every_file_has_a_line_and_every_row():
    told = [line.partition("  ")[2] for line in LISTED.splitlines()]
    assert {"CITATION.cff", "releases.yml", "cores/zen3.yml", "native/epyc-zen4-vm-asm.json"} < set(told)
    rows = (DATA / "published.csv").read_text("utf-8").count("\n") - 1
    assert sum(what.startswith("published.csv, ") for what in told) == rows > 300


def test_quiet_changes_are_told(tmp_path, monkeypatch):
    """Such as no table shows: each is put in by hand here, and taken back."""
    data = copied(tmp_path, monkeypatch)
    assert checksums.changes(LISTED) == []
    for name, old, new, said in (
        ("published.csv", "xu-dd-2334,direct_vs_fprobe", "xu-dd-2334,fprobe", "published.csv, arm64-pi4-xu-dd-2334 is changed"),
        ("published.csv", ",65.03,", ",65.04,", "published.csv, arm64-callops-after-r2-i0-total is changed"),
        ("releases.yml", "since: v5.11", "since: v5.12", "releases.yml is changed"),
        ("native/epyc-zen4-vm-asm.json", '"ns_min": 3.7895', '"ns_min": 3.7896', "native/epyc-zen4-vm-asm.json is changed"),
        ("cores/zen3.yml", "clock_ghz: ", "clock_ghz: 1", "cores/zen3.yml is changed"),
        ("../CITATION.cff", "date-released: 2026-11-21", "date-released: 2026-11-22", "CITATION.cff is changed"),
    ):
        whole = (data / name).read_text("utf-8")
        assert whole.count(old) == 1, name
        (data / name).write_text(whole.replace(old, new), "utf-8")
        assert checksums.changes(LISTED) == [said]
        (data / name).write_text(whole, "utf-8")
    lines = (data / "published.csv").read_text("utf-8").splitlines(keepends=True)
    (data / "published.csv").write_text("".join([*lines[:5], lines[6].replace("arm64-", "arm65-", 1), *lines[6:]]), "utf-8")
    names = [line.partition(",")[0] for line in (lines[5], lines[6])]
    assert checksums.changes(LISTED) == [
        f"published.csv, {names[0]} is gone",
        f"published.csv, {names[1].replace('arm64', 'arm65')} is new",
    ]
    (data / "published.csv").write_text("".join(lines), "utf-8")
    (data / "cores" / "zen3.yml").rename(data / "cores" / "zen33.yml")
    assert checksums.changes(LISTED) == ["cores/zen3.yml is gone", "cores/zen33.yml is new"]


def test_line_ends_are_no_change(tmp_path, monkeypatch):
    data = copied(tmp_path, monkeypatch)
    (data / "releases.yml").write_bytes((ROOT / "data" / "releases.yml").read_bytes().replace(b"\n", b"\r\n"))
    assert checksums.changes(LISTED) == []
