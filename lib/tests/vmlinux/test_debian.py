"""Fetching Debian's kernel images, from an archive that is made up."""

import dataclasses

import pytest

from support.complaints import complaint
from support.debian import ARCHITECTURES, Machine, etc, made_up
from tramplab import TramplabError
from tramplab.base import cache
from tramplab.vmlinux.debian import archive, fetch
from tramplab.vmlinux.debian import list as listed
from tramplab.vmlinux.debian.__main__ import main
from tramplab.vmlinux.debian.archive import Gone, NoLists
from tramplab.vmlinux.debian.list import Package


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Machine:
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / "cache"))
    return made_up(tmp_path, monkeypatch)


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
    message = complaint(lambda: fetch.fetch(three), NoLists if command == "update" else TramplabError)
    assert message.startswith(f"apt-get {command} failed (") and quoted in message
    assert not any(map(fetch.there, three)) and machine.left() == []


def test_a_list_that_cannot_be_had_keeps_no_other_image_away(machine, three, capsys):
    """As while a mirror is brought up to date; the images of the other architectures are fetched, and the status says that one
    is missing."""
    machine.breaks(three[1].architecture)
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert [fetch.there(p) for p in three] == [True, False, True] and machine.left() == []
    assert [line.partition(":")[0] for line in out.splitlines()] == [three[0].name, three[2].name]
    assert err.startswith("tramplab: apt-get update failed (Failed to fetch ") and err.count("\n") == 1
    assert machine.calls().count("update") == 4, "once together, and once for each"


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
