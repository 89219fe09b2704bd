"""The command behind `make book` and `make text`; it takes the options of `jupyter-book`:

    python book_build.py build . -W -n --keep-going [--path-output FOLDER]

Jupyter Book writes into FOLDER/_build/unfinished. Only a complete book takes the place of FOLDER/_build/html: a build that fails
or is interrupted leaves the previous one as it was, and what it made itself to be looked at.
"""

import argparse
import contextlib
import fcntl
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import psutil

from tramplab.base import cache, paths
from tramplab.base.errors import TramplabError
from tramplab.base.starting import one_thread
from tramplab.emulate.engine import small_pages
from tramplab.native import cached
from tramplab_book.studies import memo

FAILED = 1  # exit status
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def jupyter_book(arguments: list[str]):
    """Jupyter Book's process. In a session of its own it gets no Ctrl-C: the process that waits for it ends it."""
    os.setsid()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    from jupyter_book.cli.main import main

    try:
        main(arguments)
    except RuntimeError as e:  # Sphinx has printed the error; Jupyter Book says that there was one
        sys.exit(str(e))


def run(arguments: list[str]) -> int:
    """Run Jupyter Book; returns its exit status. Every process that it has started ends with it, and when this is interrupted."""
    process = multiprocessing.get_context("fork").Process(target=jupyter_book, args=[arguments])
    process.start()
    try:
        process.join()
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        with contextlib.suppress(psutil.NoSuchProcess):
            build = psutil.Process(process.pid)
            for one in (build, *build.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
        with contextlib.suppress(ProcessLookupError):  # where Jupyter Book itself was killed: the processes that read pages
            os.killpg(process.pid, signal.SIGKILL)
        process.join()
    return process.exitcode


@contextlib.contextmanager
def unfinished(build: Path):
    """An empty folder in `build`. Raises TramplabError while another build has it: each has a lock until all its processes end."""
    build.mkdir(parents=True, exist_ok=True)
    with open(build / ".lock", "a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TramplabError(f"another build is running in {build}: wait for its end, or stop it.") from None
        folder = build / "unfinished"
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
        yield folder


def prepare(rows: Path, sockets: str):
    """Set the environment of the kernels, and what they inherit.

    rows: a folder for what all pages of this build share: rows of each study (lib/tramplab_book/studies/memo.py), and the times of
    this machine, taken before pages are executed in parallel.
    sockets: a folder with a short name, as the path of a socket may have 104 characters.
    """
    rows.mkdir()
    os.environ.setdefault(memo.FOLDER, str(rows))
    os.environ["TRAMPLAB_CACHE"] = str(cache.folder())  # where it cannot be written, that is said once and not by every page
    os.environ["TRAMPLAB_DATA"] = str(paths.data_file("releases.yml").parent)  # a relative one would be relative to a page
    os.environ["JUPYTER_RUNTIME_DIR"] = sockets
    print(cached.prepare(rows), flush=True)
    os.environ[cached.CHOICE] = str(rows)
    one_thread()
    small_pages()


def main(arguments: list[str]) -> int:
    """Build, and put a complete book in its place, or say that there is none; returns the exit status."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--path-output", type=Path, default=Path())
    parser.add_argument("--custom-builder", dest="kind")
    own, others = parser.parse_known_args(arguments)
    others += ["--custom-builder", own.kind] if own.kind else []
    build = own.path_output / "_build"
    target = build / (own.kind or "html")
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, signal.default_int_handler)
    try:
        with unfinished(build) as folder, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as sockets:
            rows = folder.resolve() / "rows"
            prepare(rows, sockets)
            status = run([*others, "--path-output", str(folder)])
            if status == 0:
                if target.exists():
                    target.rename(folder / "previous")
                (folder / "_build" / target.name).rename(target)
                shutil.rmtree(folder)
                return 0
            reason = "the book was not built, see the errors above"
            if status < 0:
                reason = f"the build was ended by {signal.Signals(-status).name}; SIGKILL is what Linux sends when memory runs out"
    except KeyboardInterrupt:
        reason = "the build was interrupted"
    except TramplabError as e:
        reason = f"the book was not built: {e}"
    except OSError as e:
        where = e.filename or build
        reason = f"the book was not built: {where}: {e.strerror}. Build where there is space and files can be written."
    previous = f"\n== {target} is as it was" if target.exists() else ""
    print(f"== {reason}{previous}", file=sys.stderr, flush=True)
    return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
