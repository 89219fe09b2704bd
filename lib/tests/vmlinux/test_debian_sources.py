"""Where a machine has its Debian from, and what its apt is told to read."""

import pytest

from support.complaints import complaint
from support.debian import etc
from tramplab.vmlinux.debian import sources
from tramplab.vmlinux.debian.sources import Source

KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"
OWN = "Signed-By: /usr/share/keyrings/debian-archive-keyring.pgp"
SECURITY = """\
Types: deb
URIs: http://mirror.example/debian-security
Suites: trixie-security
Components: main

Types: deb-src
URIs: http://sources.example/debian
Suites: trixie
Components: main
"""
OTHERS = """\
deb https://shop.example/linux/browser stable main
deb [arch=amd64 signed-by=/etc/apt/keyrings/shop.gpg] https://shop.example/repos/code stable main
deb https://boxes.example/linux/debian bookworm stable
deb http://mirror.example/debian-security bookworm-security main
deb cdrom:[Debian GNU/Linux trixie main]/debian trixie main
deb cdrom:[debian-13]/ trixie main
deb-src http://sources.example/debian trixie main
# deb http://commented.example/debian trixie main
deb http://other.example/ubuntu noble main
deb http://extra.example/debian trixie contrib # main
"""


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"sources__list": "deb http://mirror.example/debian trixie main\n"}, Source("http://mirror.example/debian")),
        (
            {"sources__list": OTHERS + f"deb [ arch=amd64  signed-by={KEY} ] http://a.example/debian/ sid contrib main # all\n"},
            Source("http://a.example/debian/", KEY),
        ),
        ({"own__list": "  deb\thttp://mirror.example/debian\tstable\tnon-free  main"}, Source("http://mirror.example/debian")),
        (
            {"debian__sources": f"Types: deb\nURIs: http://a.example/debian\nSuites: sid\nComponents: main contrib\n{OWN}\n"},
            Source("http://a.example/debian", OWN.split()[1]),
        ),
        (
            {"a__sources": f"{SECURITY}\n\ntypes: deb-src deb\nuris:\n# a note\n http://a.example/debian\n http://b.example/debian\n"
             "SUITES: trixie trixie-updates\ncomponents: main"},
            Source("http://a.example/debian"),
        ),
        (
            {"a__sources": "Types: deb\nURIs: mirror+file:///etc/apt/mirrors/debian.list\nSuites: bookworm\nComponents: main\n"},
            Source("mirror+file:///etc/apt/mirrors/debian.list"),
        ),
        (
            {
                "a__sources": "Enabled: no\nTypes: deb\nURIs: http://off.example/debian\nSuites: sid\nComponents: main\n",
                "b__list": "deb http://on.example/debian sid main",
                "c__list__disabled": "deb http://a.example/debian sid main",
            },
            Source("http://on.example/debian"),
        ),
        (
            {
                "sources__list": "deb [signed-by=/k/board.gpg] http://board.example/debian trixie main\n"
                "deb http://board.example/debian-extra trixie main\n",
                "z__list": "deb http://a.example/debian trixie main",
            },
            Source("http://a.example/debian"),
        ),
        (
            {
                "sources__list": "deb http://board.example/debian trixie main",
                "z__sources": f"Types: deb\nURIs: http://whole.example/copy\nSuites: trixie\nComponents: main\n{OWN}\n",
            },
            Source("http://whole.example/copy", OWN.split()[1]),
        ),
    ],
)  # fmt: skip
def test_the_source_of_debian_is_found(tmp_path, files, found):
    assert sources.debian(etc(tmp_path / "apt", **files)) == found


def test_third_parties_are_no_debian(tmp_path):
    for n, files in enumerate(({}, {"sources__list": OTHERS}, {"a__sources": SECURITY})):
        folder = etc(tmp_path / str(n), **files)
        assert "no source of Debian's packages" in complaint(lambda folder=folder: sources.debian(folder))


def test_a_key_that_is_written_out_is_kept(tmp_path):
    block = "\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END PGP PUBLIC KEY BLOCK-----"
    text = f"Types: deb\nURIs: http://a.example/debian\nSuites: sid\nComponents: main\nSigned-By:{block}\n"
    source = sources.debian(etc(tmp_path / "apt", a__sources=text))
    assert source.signed_by == block
    again = sources.private(source, {"trixie": ["amd64"]})
    assert sources.debian(etc(tmp_path / "again", a__sources=again)) == source


@pytest.mark.parametrize(
    ("said", "there", "key"),
    [
        ("", True, "whole"),
        ("", False, None),
        ("/usr/share/keyrings/debian-archive-bookworm-stable.gpg", True, "whole"),
        ("/usr/share/keyrings/debian-archive-bookworm-stable.gpg", False, "said"),
        (KEY, True, "said"),
        ("/etc/apt/keyrings/mirror.gpg", True, "said"),
    ],
)
def test_every_suite_is_read_with_the_keys_of_all(tmp_path, monkeypatch, said, there, key):
    whole = tmp_path / "all.gpg"
    monkeypatch.setattr(sources, "KEYRING", whole)
    if there:
        whole.touch()
    text = sources.private(Source("http://a.example/debian", said), {"sid": ["arm64"]})
    lines = [line for line in text.splitlines() if line.startswith("Signed-By")]
    assert lines == ([] if key is None else [f"Signed-By: {whole if key == 'whole' else said}"])


def test_only_what_is_wanted_is_asked_of_the_archive():
    text = sources.private(Source("http://a.example/debian"), {"sid": ["amd64", "arm64"], "trixie": ["riscv64"]})
    first, second = text.split("\n\n")
    assert "Suites: sid\nComponents: main\nArchitectures: amd64 arm64\nTargets: Packages\n" in first
    assert "Suites: trixie\nComponents: main\nArchitectures: riscv64\n" in second
