"""Fetching Debian's kernel images, from an archive that is made up."""

import shutil
import socket
import subprocess
from pathlib import Path

import msgspec
import pytest

from support.complaints import complaint
from support.plugins.browser import serve
from support.vmlinux.debian import ARCHITECTURES, package
from tramplab import TramplabError
from tramplab.base import cache
from tramplab.vmlinux.debian import fetch as fetching
from tramplab.vmlinux.debian import list as listed
from tramplab.vmlinux.debian.__main__ import main
from tramplab.vmlinux.debian.fetch import Gone, content, fetch, image, there
from tramplab.vmlinux.debian.list import Package


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The archive's folder; the cache is empty."""
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "archive"


@pytest.fixture
def three(folder, monkeypatch) -> list[Package]:
    """Three images of the archive, which are the list."""
    made = [package(folder, f"{n}-{a}", bytes([n]) * 70_000, a) for n, a in enumerate(ARCHITECTURES)]
    made[1] = msgspec.structs.replace(made[1], one=True)
    monkeypatch.setattr(listed, "packages", lambda: tuple(made))
    return made


@pytest.fixture
def archive(folder, three):
    """The address of the archive."""
    address, end = serve(folder)
    yield address
    end()


def left() -> list[Path]:
    """What is in the cache besides whole images."""
    return [p for p in cache.folder().rglob("*") if p.name != "kernels" and p.suffix != ".image"]


def test_images_are_fetched_and_kept(archive, folder, three):
    came: list[Package] = []
    fetch(three, came.append, [archive])
    shutil.rmtree(folder)  # nothing is asked for again
    fetch(three, came.append, [archive])
    assert came == [*three, *three] and left() == []
    for n, p in enumerate(three):
        assert there(p) and content(p) == bytes([n]) * 70_000
        assert image(p) == cache.place(f"kernels/{p.sha256}.image") and image(p).read_bytes().startswith(content(p))


def test_where_the_archive_has_a_package():
    files = {p.name: p.file for p in listed.packages()}
    assert files["debian-6.1-arm64"] == "pool/main/l/linux-signed-arm64/linux-image-6.1.0-50-arm64_6.1.176-1_arm64.deb"
    assert files["debian-7.2-riscv64"] == "pool/main/l/linux/linux-binary-7.2.13+deb14-riscv64_7.2.13-1_riscv64.deb"


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="no dpkg-deb, which makes Debian's packages")
def test_a_package_of_debians_own_program_is_read(folder, tmp_path):
    made = package(folder, "small", b"image" * 1000)
    root = tmp_path / "root"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "boot").mkdir()
    (root / "DEBIAN" / "control").write_text("Package: aa\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n", "utf-8")
    (root / made.path).write_bytes(b"image" * 1000)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", root, folder / made.file], check=True, capture_output=True)
    fetch([made], archives=[folder.as_uri()])
    assert content(made) == b"image" * 1000


def test_the_command_says_a_line_for_each(archive, three, capsys):
    assert main(["1-arm64", "--archive", archive]) == 0
    assert capsys.readouterr() == ("1-arm64: linux-image-1-arm64 7.2.1-3, 0.1 MB\n", "")
    assert main(["--one"]) == 0 and capsys.readouterr().out.count("\n") == 1
    assert main(["--archive", f"{archive}/"]) == 0 and capsys.readouterr().out.count("\n") == 3


@pytest.mark.parametrize("arguments", [["2-amd64"], ["--two"], ["--one", "1-arm64"], ["--archive", "nowhere"]])
def test_what_cannot_be_asked_for_is_status_2(three, capsys, arguments):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("tramplab: ") and err.count("\n") == 1


def test_an_image_that_is_not_there_says_how_to_get_it(three):
    for get in (image, content):
        message = complaint(lambda get=get: get(three[0]))
        assert "make kernels" in message and f"python -m tramplab.vmlinux.debian {three[0].name}" in message
    assert not there(three[0]) and left() == []


def test_a_damaged_image_is_named(archive, three):
    fetch(three, archives=[archive])
    kept = image(three[1])
    whole = kept.read_bytes()
    kept.write_bytes(whole[:500] + b"!" + whole[501:])
    assert complaint(lambda: content(three[1])) == f"{kept} is damaged: remove it, and fetch it with `make kernels`."
    kept.unlink()
    fetch(three, archives=[archive])
    assert content(three[1]) == whole


def test_another_image_than_the_listed_one_is_not_kept(archive, three):
    wrong = msgspec.structs.replace(three[1], sha256="0" * 64)
    message = complaint(lambda: fetch([three[0], wrong, three[2]], archives=[archive]))
    assert three[1].sha256 in message and wrong.name in message and str(wrong) in message
    assert [there(p) for p in (three[0], wrong, three[1], three[2])] == [True, False, False, False] and left() == []


@pytest.mark.parametrize("path", ["boot/vmlinuz", "boot"])
def test_a_package_without_the_file_is_named(archive, three, path):
    wrong = msgspec.structs.replace(three[0], path=path)
    assert f"has no file {path};" in complaint(lambda: fetch([wrong], archives=[archive])) and left() == []


@pytest.mark.parametrize("size", [0, 100, 300])
def test_half_a_package_is_not_kept(archive, folder, three, size):
    deb = folder / three[0].file
    assert deb.stat().st_size > 330
    deb.write_bytes(deb.read_bytes()[:size])
    assert f"{three[0].file} (there is no whole package)" in complaint(lambda: fetch(three, archives=[archive]))
    assert not there(three[0]) and left() == []


def test_versions_that_are_gone_are_named_and_the_others_are_fetched(archive, folder, three, capsys):
    for p in three[:2]:
        (folder / p.file).unlink()
    message = complaint(lambda: fetch(three, archives=[archive]), Gone)
    assert all(f"{p.package}:{p.architecture} {p.version}" in message for p in three[:2]) and three[2].package not in message
    assert "saved stay" in message and "named with --archive." in message
    assert [there(p) for p in three] == [False, False, True] and left() == []
    assert main(["--archive", archive]) == 3
    assert capsys.readouterr() == (f"{three[2].name}: {three[2]}, 0.1 MB\n", f"tramplab: {message}\n")


@pytest.fixture
def apt(tmp_path, monkeypatch):
    """Has apt name these addresses, None being no apt; it is asked once."""

    def names(*addresses: str | None):
        program = tmp_path / "bin" / "apt-get"
        program.parent.mkdir()
        if addresses != (None,):
            program.write_text("#!/bin/sh\n" + "".join(f"echo {address}\n" for address in addresses), "utf-8")
            program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent))
        fetching.of_apt.cache_clear()

    yield names
    fetching.of_apt.cache_clear()


def test_the_archives_of_apt_are_asked_in_turn(archive, three, apt, tmp_path):
    (tmp_path / "empty").mkdir()
    other, end = serve(tmp_path / "empty")
    apt(other, archive, archive)
    fetch(three)
    end()
    assert all(map(there, three)) and fetching.of_apt() == (other, archive)


@pytest.mark.parametrize("names", [(), (None,)])
def test_without_apt_an_address_is_asked_for(three, apt, names):
    apt(*names)
    assert complaint(lambda: fetch(three)).startswith("apt names no copy of Debian's archive") and left() == []


def test_an_archive_that_cannot_be_reached(three):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"http://127.0.0.1:{gone.getsockname()[1]}"
    with pytest.raises(TramplabError, match=f"^cannot fetch {address}/pool/.* \\(.*refused.*\\); what was fetched"):
        fetch(three, archives=[address])
    assert not any(map(there, three)) and left() == []
