"""The list of Debian's kernel images: what it holds, what is chosen of it, and mistakes in it."""

import re
from collections import Counter

import pytest
import yaml

from support import ROOT
from support.complaints import complaint
from support.vmlinux.debian import ARCHITECTURES
from tramplab.isa import ISAS
from tramplab.vmlinux.debian import list as listed
from tramplab.vmlinux.debian.list import packages

ENTRIES = yaml.safe_load((ROOT / "data" / listed.FILE).read_text("utf-8"))["images"]


def test_the_list_has_all_isas_and_flavours():
    assert len(packages()) >= 12
    assert {p.isa for p in packages()} == set(ISAS)
    assert {p.flavour for p in packages()} >= {"", "cloud", "rt", "16k"}
    assert {(p.isa, p.release) for p in packages()} >= {(isa, "v7.2") for isa in ISAS}
    assert {p.release for p in packages()} >= {"v7.3"}, "one that the lab does not know"


@pytest.mark.parametrize("p", packages(), ids=lambda p: p.name)
def test_what_an_entry_says_agrees(p):
    """Its name, its package and its path are of the same kernel."""
    kind = {"": p.architecture, "16k": f"{p.architecture}-16k"}.get(p.flavour, f"{p.flavour}-{p.architecture}")
    assert p.name == f"debian-{p.release[1:]}-{kind}"
    of = p.package.removeprefix("linux-image-").removeprefix("linux-binary-")
    assert re.fullmatch(rf"{re.escape(p.release[1:])}(\..*)?-{kind}", of)
    assert re.match(rf"{re.escape(p.release[1:])}[.~]", p.version)
    assert p.path in (f"boot/vmlinuz-{of}", f"boot/vmlinux-{of}", f"usr/lib/modules/{of}/vmlinuz")
    assert p.isa == ARCHITECTURES[p.architecture] and "unsigned" not in p.package


def test_every_entry_is_unique():
    for what in ("name", "path", "sha256"):
        assert max(Counter((getattr(p, what), p.architecture) for p in packages()).values()) == 1


def test_one_image_of_each_isa_is_chosen_for_all():
    one = listed.chosen([], one=True)
    assert [p.isa for p in one] == ["x86_64", "arm64", "riscv64"] and {p.flavour for p in one} == {""}
    assert listed.chosen([], one=False) == packages()


def test_images_are_chosen_by_name():
    names = ["debian-7.2-arm64", "debian-6.1-amd64"]
    assert [p.name for p in listed.chosen([*names, names[0]], one=False)] == names
    assert "did you mean debian-7.2-arm64" in complaint(lambda: listed.chosen(["debian-7.2-arm"], one=False))
    assert "--one" in complaint(lambda: listed.chosen(names, one=True))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "Debian 6.1"}, "a name is a file name"),
        ({"name": ENTRIES[1]["name"]}, f"2 images have the name {ENTRIES[1]['name']}"),
        ({"sha256": ENTRIES[1]["sha256"]}, "2 images have the sha256"),
        ({"package": ENTRIES[1]["package"]}, "2 images have the package"),
        ({"package": "-oSomething=1"}, "a package is named like"),
        ({"suite": "trixie/updates"}, "a suite is a code name"),
        ({"version": 6.1}, "version: a version is written like 6.1.176-1, not 6.1; put it in quotes"),
        ({"path": "/boot/vmlinuz"}, "without a / in front"),
        ({"sha256": "abc"}, "64 hexadecimal digits"),
        ({"flavour": "rt32"}, "flavour: unknown value 'rt32'; did you mean rt?"),
        ({"architecture": "x86_64"}, "architecture: unknown value"),
        ({"isa": "amd64"}, "isa: unknown value"),
        ({"release": "6.1"}, "written like v6.16"),
        ({"one": "yes"}, "one: expected `bool`, got `str`"),
        ({"one": True}, "2 images of x86_64 say `one: true`"),
        ({"sum": "x"}, "unknown key 'sum'"),
    ],
)
def test_a_mistake_in_the_list_is_one_sentence(change, said):
    assert ENTRIES[0]["isa"] == "x86_64"
    message = complaint(lambda: listed.read({"images": [{**ENTRIES[0], **change}, *ENTRIES[1:]]}))
    assert message.startswith(listed.FILE) and said in message


@pytest.mark.parametrize("key", sorted(ENTRIES[0]))
def test_a_fact_that_is_missing_is_named(key):
    entry = {k: v for k, v in ENTRIES[0].items() if k != key}
    assert f"has no {key}." in complaint(lambda: listed.read({"images": [entry, *ENTRIES[1:]]}))


def test_an_isa_has_to_have_its_one():
    without = [entry for entry in ENTRIES if not (entry["isa"] == "riscv64" and entry.get("one"))]
    assert "0 images of riscv64" in complaint(lambda: listed.read({"images": without}))
