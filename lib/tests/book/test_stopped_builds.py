"""Builds that are stopped or take long: what they leave running, and the one step in which a new book comes."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
import yaml
from nbclient import NotebookClient

from support import ROOT
from support.children import ended
from support.small_books import OLD, book, executed_at_once

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import book_kernels
import book_patience
import book_unfinished

# -- builds that are stopped

WAITS = "```{{code-cell}}\nimport time\nopen('started-{0}', 'w').close()\ntime.sleep(600)\n```\n"


@contextlib.contextmanager
def running(folder: Path, command, environment):
    """A build whose first two pages wait; the processes it consists of, from make on, and what it says."""
    for old in (folder / "book").glob("started-*"):
        old.unlink()
    with (folder / "log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
        made = [psutil.Process(process.pid)]
        try:
            deadline = time.monotonic() + 300  # a build starts late on a busy machine
            while len(list((folder / "book").glob("started-*"))) < 2:
                assert time.monotonic() < deadline and process.poll() is None, (folder / "log").read_text("utf-8")
                time.sleep(0.05)
            made += made[0].children(recursive=True)
            yield made
        finally:
            for left in made:
                with contextlib.suppress(psutil.NoSuchProcess):
                    left.kill()
            process.wait()


def kernels(made: list[psutil.Process]) -> list[psutil.Process]:
    """Those that execute pages. What has ended by now, as an asked compiler does, was none of them."""
    found = []
    for process in made:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [process] if any("book_forks" in word for word in process.parent().cmdline()) else []
    return found


def in_pairs(folder: Path):
    """A book of which two pages are executed at once and wait."""
    command, environment = book(folder, {name: WAITS.format(name) for name in "ab"})
    executed_at_once(folder, 2)
    return command, environment


def test_a_stopped_build_leaves_the_book_and_nothing_running(tmp_path):
    command, environment = in_pairs(tmp_path)
    built = tmp_path / "_build"
    stops = (("group", signal.SIGINT), ("make", signal.SIGTERM), ("watching", signal.SIGKILL), ("make", signal.SIGKILL))
    for who, number in stops:
        with running(tmp_path, command, environment) as made:
            make, watching = made[:2]
            assert len(kernels(made)) == 2
            if number == signal.SIGINT:  # while it runs, another is refused
                other = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8")
                assert other.returncode != 0
                assert "== another build is running in _build: wait for its end, or stop it.\n" in other.stderr
                os.killpg(make.pid, number)  # as a terminal does
            else:
                {"make": make, "watching": watching}[who].send_signal(number)
            assert ended({process.pid for process in made}), (who, number)  # psutil's own wait looks once a second
        assert (built / "html" / "index.html").read_text("utf-8") == OLD
        said = (tmp_path / "log").read_text("utf-8")
        if number != signal.SIGKILL:
            assert said.count("== the build was interrupted; the one in _build/html is as it was\n") == 1
            assert re.search(r"as it was\nmake: .* Error 1\n\Z", said)
            assert os.listdir(built / "html") == ["index.html"] and not (built / "unfinished").exists()
    # What a build that was killed whole leaves is cleared by the next one, which touches nothing else.
    for page in "ab":
        (tmp_path / "book" / f"{page}.md").write_text("# Page\n\nText.\n", "utf-8")
    (built / "site").mkdir()
    left = built / "unfinished" / "_build"
    left.mkdir(parents=True)
    (tmp_path / "sockets").mkdir()
    (left / "sockets").symlink_to(tmp_path / "sockets")
    (left / ".doctrees").mkdir()
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert (built / "html" / "book" / "a.html").exists() and OLD not in (built / "html" / "index.html").read_text("utf-8")
    assert sorted(os.listdir(built)) == [".unfinished.lock", "html", "site"] and not (tmp_path / "sockets").exists()


def test_the_kernels_of_a_build_that_is_killed_whole_end_by_themselves(tmp_path):
    with running(tmp_path, *in_pairs(tmp_path)) as made:
        alone = kernels(made)
        for end in (psutil.Process.suspend, psutil.Process.kill):  # at once: none tidies up because another has ended
            for process in set(made) - set(alone):
                with contextlib.suppress(psutil.NoSuchProcess):  # its end may have been its parent's
                    end(process)
        assert len(alone) == 2 and ended({process.pid for process in made})
    assert (tmp_path / "_build" / "html" / "index.html").read_text("utf-8") == OLD
    sockets = (tmp_path / "_build" / "unfinished" / "_build" / "sockets").resolve(strict=True)
    book_unfinished.clear(tmp_path / "_build" / "unfinished")
    assert not sockets.exists()


# -- the new book in the place of the old one


@pytest.fixture
def two(tmp_path):
    for name in ("html", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text(name, "utf-8")
    return tmp_path / "new", tmp_path / "html"


@pytest.mark.parametrize("one_step", [True, False])
def test_the_new_book_takes_the_place_of_the_old(two, monkeypatch, one_step):
    new, old = two
    if not one_step:
        monkeypatch.setattr(book_unfinished, "exchange", lambda *_: False)
    book_unfinished.put(new, old)
    assert (old / "index.html").read_text("utf-8") == "new"
    assert set(os.listdir(old.parent)) == {"html", "new"} if one_step else {"html"}
    shutil.rmtree(old)
    new.mkdir(exist_ok=True)
    book_unfinished.put(new, old)  # where none was
    assert old.is_dir() and not new.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="what Linux promises")
def test_linux_exchanges_them_in_one_step(two):
    assert book_unfinished.exchange(*two)
    assert (two[1] / "index.html").read_text("utf-8") == "new" and (two[0] / "index.html").read_text("utf-8") == "html"
    assert not book_unfinished.exchange(two[0], two[0].parent / "nowhere")


@pytest.mark.parametrize("renamed", [0, 1, 2])
def test_a_build_killed_between_two_renames_is_repaired_by_the_next(two, renamed):
    new, old = two
    for source, target in ((old, "html.aside"), (new, "html"))[:renamed]:
        source.rename(old.parent / target)
    with book_unfinished.folder(old.parent) as unfinished:
        assert os.listdir(unfinished) == []
        assert (old / "index.html").read_text("utf-8") == ("new" if renamed == 2 else "html")
        assert not (old.parent / "html.aside").exists()


# -- time


def test_a_long_cell_is_spoken_of_while_it_runs(tmp_path):
    slow = "```{code-cell}\nimport time; time.sleep(2.5)\nprint('done')\n```\n"
    command, environment = book(tmp_path, {"slow": slow})
    patience = tmp_path / "book" / "_ext" / "book_patience.py"
    patience.write_text(re.sub(r"^AFTER = .*", "AFTER = (1, 2)", patience.read_text("utf-8"), flags=re.M), "utf-8")
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    line = "== still executing book/slow.md, line 8, the cell `import time; time.sleep(2.5)`, for {} now"
    said = [s[s.find("== still") :] for s in done.stdout.splitlines() if "still" in s]  # perhaps behind what Sphinx counts
    assert said == [line.format(t) for t in ("1 second", "2 seconds")]
    pages = (path for path in (tmp_path / "_build" / "html" / "book").glob("slow.*") if path.suffix != ".glue.json")
    texts = {path.suffix: path.read_text("utf-8") for path in pages}
    assert "done" in texts[".txt"] and [kind for kind, text in texts.items() if "still executing" in text] == []


def test_times_to_speak_grow():
    first = [seconds for seconds, _ in zip(book_patience.times(), range(9), strict=False)]
    assert first == [20, 60, 120, 300, 600, 1200, 2400, 4800, 9600]


def test_no_time_is_too_long_for_a_cell_or_a_kernel(monkeypatch):
    """What nbclient makes of the settings: None is no limit, and what it waits for a kernel outlasts everybody."""
    monkeypatch.setattr(NotebookClient, "__init__", NotebookClient.__init__)  # put back at the end
    book_kernels.start_and_end_kernels("nowhere")
    limit = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["execute"]["timeout"]
    client = NotebookClient(nbformat.v4.new_notebook(), timeout=limit)
    assert client._get_timeout(nbformat.v4.new_code_cell("1")) is None
    years = 365 * 24 * 3600
    assert client.startup_timeout > 10 * years and client.iopub_timeout > 10 * years
