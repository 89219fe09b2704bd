"""Files that a user names: a link and a mode stay, what is no file is refused before the work, and nothing is half there."""

import errno
import os
import stat
import tempfile
from pathlib import Path

import pytest

from support.complaints import complaint
from tramplab import cli
from tramplab.base import paths
from tramplab.base.errors import Unwritten
from tramplab.base.paths import check_target, write_whole


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_file_keeps_its_mode_and_a_new_one_has_what_the_user_wants(tmp_path):
    file, before = tmp_path / "file", os.umask(0o027)
    try:
        write_whole(file, "first")
    finally:
        os.umask(before)
    assert mode(file) == 0o640
    for kept in (0o600, 0o755):
        file.chmod(kept)
        write_whole(file, f"mode {kept}")
        assert mode(file) == kept and file.read_text("utf-8") == f"mode {kept}"


def test_a_link_stays_and_leads_to_what_was_written(tmp_path):
    """Also over several links, into another folder, and to where nothing was."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "old").touch(0o640)
    for link, target, file in (("a", "there/old", "old"), ("b", "a", "old"), ("c", "there/new", "new")):
        (tmp_path / link).symlink_to(target)
        check_target(tmp_path / link)
        write_whole(tmp_path / link, link)
        assert os.readlink(tmp_path / link) == target and (tmp_path / "there" / file).read_text("utf-8") == link
    assert mode(tmp_path / "there" / "old") == 0o640
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c", "there"] and sorted(os.listdir(tmp_path / "there")) == ["new", "old"]


#: What writes to a file that it is given the name of.
COMMANDS = (
    ("run", "counting", "--output"),
    ("grid", "--isa", "arm64", "--hook", "none", "--args", "0", "--callbacks", "1", "--out"),
    ("native", "none", "--save"),
    ("explore", "--all", "riscv64-trap", "--save"),
)


def test_what_is_no_file_is_refused_and_stays(tmp_path, capsys):
    """At once, before the work: each command with each. None of them leads out of the test's folder."""
    place = tmp_path / "place"
    for put, words in ((place.mkdir, "no ordinary file"), (lambda: place.symlink_to("place"), "cannot write")):
        put()
        before = place.lstat().st_ino
        for command in COMMANDS:
            assert cli.main([*command, str(place)]) == 2
            out, err = capsys.readouterr()
            assert out == "" and err.startswith("tramplab: ") and err.count("\n") == 1 and words in err, command
        with pytest.raises(paths.TramplabError, match=words):
            write_whole(place, "text")
        assert place.lstat().st_ino == before and os.listdir(tmp_path) == ["place"]
        place.rename(tmp_path.parent / f"{tmp_path.name}-{before}")


def test_what_cannot_be_written_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("old", "utf-8")
    message = complaint(lambda: check_target(tmp_path / "file" / "below"))
    assert message == f"cannot write {tmp_path / 'file' / 'below'}: Not a directory."

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("open", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            message = complaint(lambda: write_whole(tmp_path / "file", "new"), Unwritten)
        assert message == f"cannot write {tmp_path / 'file'}: No space left on device."
        assert os.listdir(tmp_path) == ["file"] and (tmp_path / "file").read_text("utf-8") == "old"
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, how: how != os.W_OK)
        assert complaint(lambda: write_whole(tmp_path / "file", "")) == f"cannot write {tmp_path / 'file'}: Permission denied."


def test_a_relative_data_folder_is_that_of_the_process(tmp_path, monkeypatch):
    """Its checkout is around it, wherever one stands."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "releases.yml").touch()
    for here, there in (("", "data"), ("data", "."), ("data", "../data")):
        monkeypatch.chdir(tmp_path / here)
        monkeypatch.setenv("TRAMPLAB_DATA", there)
        assert os.path.samefile(paths.checkout(), tmp_path) and paths.data_file("releases.yml").is_absolute()
    for there in ("nowhere", "data/releases.yml"):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("TRAMPLAB_DATA", there)
        message = complaint(lambda: paths.data_file("releases.yml"))
        assert message.startswith(f"no data file {tmp_path / there / 'releases.yml'}: ") and "set TRAMPLAB_DATA" in message


def test_without_a_temporary_folder_there_is_one_sentence(tmp_path, monkeypatch):
    def work():
        with paths.temporary("tramplab-"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for where, why in (("nowhere", "No such file or directory"), ("", "No space left on device")):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / where))
        assert complaint(work) == f"no work in a temporary folder ({why}): set TMPDIR to one that can be written."
    assert os.listdir(tmp_path) == []
