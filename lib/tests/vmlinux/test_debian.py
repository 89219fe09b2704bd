"""Debian's kernel images: the list of them, where a machine has its Debian from, and fetching from an archive that is made up."""

import dataclasses
import hashlib
import io
import os
import tarfile
import tempfile
from collections import Counter
from pathlib import Path

import pytest
import yaml

from support import ROOT
from support.complaints import complaint
from tramplab import TramplabError, cache
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.vmlinux.debian import archive, fetch, sources
from tramplab.vmlinux.debian import list as listed
from tramplab.vmlinux.debian.__main__ import main
from tramplab.vmlinux.debian.archive import Gone
from tramplab.vmlinux.debian.list import Package, packages
from tramplab.vmlinux.debian.sources import Source

# --- The list

ARCHITECTURES = {"amd64": "x86_64", "arm64": "arm64", "riscv64": "riscv64"}
ENTRIES = yaml.safe_load((ROOT / "data" / listed.FILE).read_text("utf-8"))["images"]


def test_the_list_has_all_isas_and_flavours():
    assert len(packages()) >= 12
    assert {p.isa for p in packages()} == set(ISAS)
    assert {p.flavour for p in packages()} >= {"", "cloud", "rt", "16k"}
    assert {(p.isa, p.release) for p in packages()} >= {(isa, "v7.2") for isa in ISAS}
    assert {p.release for p in packages()} <= set(releases.known())


@pytest.mark.parametrize("p", packages(), ids=lambda p: p.name)
def test_what_an_entry_says_agrees(p):
    """Its name, its package and its path are of the same kernel."""
    kind = {"": p.architecture, "16k": f"{p.architecture}-16k"}.get(p.flavour, f"{p.flavour}-{p.architecture}")
    assert p.name == f"debian-{p.release[1:]}-{kind}"
    of = p.package.removeprefix("linux-image-").removeprefix("linux-binary-")
    assert of.endswith(f"-{kind}") and of.startswith(f"{p.release[1:]}.")
    assert p.version.startswith(f"{p.release[1:]}.")
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
        ({"version": 6.1}, "version is read as 6.1; put it in quotes"),
        ({"path": "/boot/vmlinuz"}, "without a / in front"),
        ({"sha256": "abc"}, "64 hexadecimal digits"),
        ({"flavour": "rt32"}, "unknown flavour 'rt32'"),
        ({"architecture": "x86_64"}, "unknown architecture"),
        ({"isa": "amd64"}, "unknown ISA"),
        ({"release": "6.1"}, "written like v6.16"),
        ({"one": "yes"}, "one must be a true or false"),
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


# --- Where the machine has its Debian from

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


def etc(folder: Path, **files: str) -> Path:
    """A folder like /etc/apt; a file of the folder in it has __ for the dot."""
    (folder / "sources.list.d").mkdir(parents=True)
    for key, text in files.items():
        name = key.replace("__", ".")
        (folder / name if name == "sources.list" else folder / "sources.list.d" / name).write_text(text, "utf-8")
    return folder


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


# --- Fetching

APT_GET = """\
#!/bin/sh
[ "$LC_ALL" = C ] || exit 9  # what it says is read
settings=$3 command=$4 asked=$5
echo "$command $asked" | sed 's/ $//' >> "$HERE/calls"
cp "$settings" "$HERE/settings" && cp "${settings%/*}/sources/debian.sources" "$HERE/sources"
[ ! -f "$HERE/$command.says" ] || cat "$HERE/$command.says" >&2
[ ! -f "$HERE/$command.status" ] || exit "$(cat "$HERE/$command.status")"
[ "$command" = download ] || exit 0
rest=${asked#*:}
deb="${asked%%:*}_${rest#*=}_${rest%%=*}.deb"
[ -f "$HERE/pool/$deb" ] || { echo "E: Version '${rest#*=}' for '${asked%%:*}' was not found" >&2; exit 100; }
cp "$HERE/pool/$deb" .
"""
#: Packages of the archive that is made up are plain tar files.
DPKG_DEB = """\
#!/bin/sh
[ "$1" = --fsys-tarfile ] && exec cat "$2"
"""


class Machine:
    """A Debian machine with an archive that has some packages, and what its apt-get was called for."""

    def __init__(self, folder: Path) -> None:
        self.here = folder
        (folder / "pool").mkdir()
        for name, text in (("apt-get", APT_GET), ("dpkg-deb", DPKG_DEB)):
            program = folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(text, "utf-8")
            program.chmod(0o755)

    def package(self, name: str, image: bytes, architecture: str = "amd64") -> Package:
        """Put a package with an image between other files into the archive."""
        path = f"boot/vmlinuz-{name}"
        found = Package(
            name, "sid", f"linux-image-{name}", architecture, "1.2-3", path, hashlib.sha256(image).hexdigest(), "", "v7.2", "x86_64"
        )
        with tarfile.open(self.deb(found), "w", encoding="utf-8") as deb:
            for member, content in (("./a/module.ko", b"x" * 2000), (f"./{path}", image), ("./z/module.ko", b"y" * 50_000)):
                info = tarfile.TarInfo(member)
                info.size = len(content)
                deb.addfile(info, io.BytesIO(content))
            link = tarfile.TarInfo("./vmlinuz")
            link.type, link.linkname = tarfile.SYMTYPE, path
            deb.addfile(link)
        return found

    def deb(self, package: Package) -> Path:
        return self.here / "pool" / f"{package.package}_{package.version}_{package.architecture}.deb"

    def says(self, command: str, said: str, status: int) -> None:
        """From now on a command of apt-get says this, and ends like that."""
        (self.here / f"{command}.says").write_text(said, "utf-8")
        (self.here / f"{command}.status").write_text(str(status), "utf-8")

    def calls(self) -> list[str]:
        """What apt-get was called for since the last time."""
        log = self.here / "calls"
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    def left(self) -> list[str]:
        """What is in the cache and among temporary files, besides whole images."""
        paths = [*(self.here / "cache").rglob("*"), *(self.here / "temporary").iterdir()]
        return [str(p) for p in paths if p.name != "kernels" and not p.name.endswith(".sha256.image")]


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Machine:
    made = Machine(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("HERE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(archive, "ETC", etc(tmp_path / "etc", sources__list="deb http://mirror.example/debian trixie main\n"))
    return made


@pytest.fixture
def three(machine, monkeypatch) -> list[Package]:
    """Three images of the archive, which are the list."""
    made = [machine.package(f"{n}-{a}", bytes([n]) * 70_000, a) for n, a in enumerate(ARCHITECTURES)]
    made[1] = dataclasses.replace(made[1], suite="trixie", one=True)
    monkeypatch.setattr(listed, "packages", lambda: tuple(made))
    return made


def test_images_are_fetched_and_kept(machine, three):
    came: list[tuple[Package, bool]] = []
    fetch.fetch(three, lambda p, new: came.append((p, new)))
    assert came == [(p, True) for p in three]
    assert machine.calls() == ["update", *(f"download {p.package}:{p.architecture}=1.2-3" for p in three)]
    for n, p in enumerate(three):
        assert fetch.there(p) and fetch.content(p) == bytes([n]) * 70_000
        assert fetch.image(p) == cache.place(f"kernels/{p.sha256}.image")
        assert fetch.image(p).read_bytes().startswith(bytes([n]) * 70_000)
    assert machine.left() == []
    fetch.fetch(three, lambda p, new: came.append((p, new)))
    assert came[3:] == [(p, False) for p in three] and machine.calls() == []


def test_what_apt_is_told(machine, three):
    fetch.fetch(three)
    text, settings = ((machine.here / name).read_text("utf-8") for name in ("sources", "settings"))
    assert text.count("URIs: http://mirror.example/debian\n") == 2
    assert "Suites: sid\nComponents: main\nArchitectures: amd64 riscv64\n" in text
    assert "Suites: trixie\nComponents: main\nArchitectures: arm64\n" in text
    assert 'APT::Architectures "amd64,arm64,riscv64";' in settings or 'APT::Architectures "amd64,riscv64,arm64";' in settings
    folders = [line for line in settings.splitlines() if line.startswith("Dir::") and "/dev/null" not in line and "pkg" not in line]
    assert len(folders) > 6 and all(f'"{machine.here}/temporary/' in line for line in folders)


def test_the_command_says_a_line_for_each(machine, three, capsys):
    assert main(["1-arm64"]) == 0
    assert capsys.readouterr().out == "1-arm64: linux-image-1-arm64 1.2-3, 0.1 MB, fetched\n"
    assert main([]) == 0
    assert [line.rpartition(" ")[2] for line in capsys.readouterr().out.splitlines()] == ["there", "fetched", "fetched"]
    machine.calls()
    assert main(["--one"]) == 0 and machine.calls() == []
    assert capsys.readouterr() == ("1-arm64: linux-image-1-arm64 1.2-3, 0.1 MB, was there\n", "")


@pytest.mark.parametrize("arguments", [["2-amd64"], ["--two"], ["--one", "1-arm64"]])
def test_what_is_not_to_be_had_is_status_2(machine, three, capsys, arguments):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("tramplab: ") and err.count("\n") == 1 and machine.calls() == []


def test_an_image_that_is_not_there_says_how_to_get_it(machine, three):
    for get in (fetch.image, fetch.content):
        message = complaint(lambda get=get: get(three[0]))
        assert "make kernels" in message and f"python -m tramplab.vmlinux.debian {three[0].name}" in message
    assert not fetch.there(three[0]) and machine.left() == []


def test_a_damaged_image_is_fetched_again(machine, three, monkeypatch, tmp_path):
    monkeypatch.setenv(cache.LINES, str(tmp_path / "lines"))
    fetch.fetch(three)
    kept = fetch.image(three[1])
    whole = kept.read_bytes()
    kept.write_bytes(whole[:500] + b"!" + whole[501:])
    machine.calls()
    assert "not in the cache" in complaint(lambda: fetch.content(three[1]))
    fetch.fetch(three)
    assert machine.calls() == ["update", f"download {three[1].package}:arm64=1.2-3"] and kept.read_bytes() == whole
    assert "damaged" in (tmp_path / "lines").read_text("utf-8")


def test_another_image_than_the_listed_one_is_not_kept(machine, three):
    wrong = dataclasses.replace(three[1], sha256="0" * 64)
    message = complaint(lambda: fetch.fetch([three[0], wrong, three[2]]))
    assert three[1].sha256 in message and wrong.name in message and str(wrong) in message
    assert [fetch.there(p) for p in (three[0], wrong, three[1], three[2])] == [True, False, False, False]
    assert machine.left() == []


@pytest.mark.parametrize("path", ["boot/vmlinuz", "vmlinuz", "boot"])
def test_a_package_without_the_file_is_named(machine, three, path):
    """No file of this name, a link, a part of a name."""
    wrong = dataclasses.replace(three[0], path=path)
    assert f"has no file {path};" in complaint(lambda: fetch.fetch([wrong]))
    assert machine.left() == []


@pytest.mark.parametrize("size", [0, 100, 10_000, 60_000])
def test_half_a_package_is_not_kept(machine, three, size):
    deb = machine.deb(three[0])
    deb.write_bytes(deb.read_bytes()[:size])
    assert "cannot be unpacked" in complaint(lambda: fetch.fetch(three))
    assert not fetch.there(three[0]) and machine.left() == []


def test_versions_that_are_gone_are_named_and_the_others_are_fetched(machine, three, capsys):
    machine.deb(three[0]).unlink()
    machine.deb(three[1]).unlink()
    message = complaint(lambda: fetch.fetch(three), Gone)
    for p in three[:2]:
        assert f"{p.package}:{p.architecture} {p.version}" in message
    assert three[2].package not in message and "saved stay" in message and "snapshot.debian.org" in message
    assert [fetch.there(p) for p in three] == [False, False, True] and machine.left() == []
    assert main([]) == 3
    assert capsys.readouterr() == (f"{three[2].name}: {three[2]}, 0.1 MB, was there\n", f"tramplab: {message}\n")


@pytest.mark.parametrize(
    "said",
    [
        "E: Version '1.2-3' for 'linux-image-0-amd64' was not found\n",
        "E: Unable to locate package linux-image-0-amd64:amd64\nE: Couldn't find any package by glob 'linux-image-0-amd64'\n",
        "W: a warning\nE: Can't find a source to download version '1.2-3' of 'linux-image-0-amd64:amd64'\n",
        "E: Package 'linux-image-0-amd64' has no installation candidate\n",
        "E: Can't select versions from package 'linux-image-0-amd64' as it is purely virtual\n",
    ],
)
def test_all_that_apt_says_of_a_version_that_is_gone(machine, three, said):
    machine.says("download", said, 100)
    complaint(lambda: fetch.fetch(three[:1]), Gone)


@pytest.mark.parametrize(
    ("command", "said", "status", "quoted"),
    [
        (
            "update",
            "W: old key\nE: Failed to fetch http://mirror.example/x  Could not resolve 'mirror.example'\nE: Some files failed.\n",
            100,
            "(Failed to fetch http://mirror.example/x Could not resolve 'mirror.example')",
        ),
        ("update", "W: Failed to fetch http://mirror.example/x  Connection refused\n", 0, "Connection refused)"),
        ("update", "", 1, "(it does not say why)"),
        ("download", "E: Failed to fetch http://mirror.example/x  404  Not Found\n", 100, "x 404 Not Found)"),
        ("download", "", 0, "(it does not say why)"),
    ],
)
def test_an_archive_that_cannot_be_reached(machine, three, command, said, status, quoted):
    machine.says(command, said, status)
    message = complaint(lambda: fetch.fetch(three))
    assert message.startswith(f"apt-get {command} failed (") and quoted in message
    assert not any(map(fetch.there, three)) and machine.left() == []


@pytest.mark.parametrize("absent", [["apt-get"], ["dpkg-deb"], ["apt-get", "dpkg-deb"]])
def test_a_machine_without_debians_programs(machine, three, monkeypatch, absent, capsys):
    for name in absent:
        (machine.here / "bin" / name).unlink()
    monkeypatch.setenv("PATH", str(machine.here / "bin"))
    message = complaint(lambda: fetch.fetch(three))
    assert f"no {' and no '.join(absent)} here" in message and "runs Debian" in message
    assert main([]) == 2 and capsys.readouterr().err == f"tramplab: {message}\n"
    assert machine.left() == []


def test_a_machine_with_another_distribution(machine, three, monkeypatch, tmp_path):
    monkeypatch.setattr(archive, "ETC", etc(tmp_path / "other", sources__list="deb http://mirror.example/ubuntu noble main\n"))
    assert main([]) == 2 and machine.calls() == [] and machine.left() == []


def test_an_interrupt_keeps_what_is_whole(machine, three, monkeypatch, capsys):
    usual = archive.Archive.download

    def stopped(self, package, folder):
        if package == three[1]:
            (folder / "half.deb").write_bytes(b"half of it")
            raise KeyboardInterrupt
        return usual(self, package, folder)

    with monkeypatch.context() as patch:
        patch.setattr(archive.Archive, "download", stopped)
        assert main([]) == 130
    assert capsys.readouterr().err == "tramplab: interrupted; the images that were fetched are kept.\n"
    assert [fetch.there(p) for p in three] == [True, False, False] and machine.left() == []
    machine.calls()
    assert main([]) == 0
    assert machine.calls() == ["update", *(f"download {p.package}:{p.architecture}=1.2-3" for p in three[1:])]


def test_an_image_that_cannot_be_written_is_one_sentence(machine, three):
    message = complaint(lambda: fetch.unpack(machine.deb(three[0]), three[0], machine.here / "pool"), TramplabError)
    assert "cannot be written" in message and "TRAMPLAB_CACHE" in message
