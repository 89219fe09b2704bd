"""The command behind `make book` and `make text`; it takes the options of `jupyter-book`:

    python book_build.py build . -W -n --keep-going [--path-output FOLDER]

Jupyter Book runs in a process of its own and writes into FOLDER/_build/unfinished; what is whole takes the place of
FOLDER/_build/html. This process watches over it, says what went wrong, and leaves nothing running when it ends.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import signal
import socket
import sys
import traceback
import types
from pathlib import Path

import book_report
import book_told
import book_unfinished

FAILED = 1  # exit status
LINES = "cache.txt"  # in the folder of a build: what was damaged in the cache, and is repaired
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WRITABLE = "What to do: see that %s is a folder that can be written, on a disk with space, then build again."
FORMATS = ("isoduration", "rfc3986_validator", "rfc3987_syntax")  # that jsonschema can check
TABLES = "jupyter_cache.cache.db"
PATIENCE = 10  # seconds for the processes of a build to end by themselves when they are told to


def inside(end: socket.socket, watching: socket.socket, arguments: list[str], rows: Path):
    """Jupyter Book's process, and a group of its own: Ctrl-C reaches only the process that watches.

    Each study's rows are made once for all pages, see lib/tramplab/studies/once.py: they are kept in a folder that goes with
    the build, so that the next one makes them again, or in the one of the tests for which the book is built. And this machine
    is timed before anything else runs, unless it has been, because pages are executed side by side: the times, or why there
    are none, lie in the folder of the build too. And so do the lines on damaged files of the cache, which a page must not print.
    """
    os.setsid()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    watching.close()
    book_told.use(end)
    leave_out()
    os.environ.setdefault("TRAMPLAB_ROWS", str(rows))
    try:
        rows.mkdir()
        from tramplab.base.starting import few_collections, one_thread

        one_thread()
        few_collections()
        from jupyter_book.cli.main import main

        from tramplab.base import cache, paths
        from tramplab.emulate.engine import small_pages
        from tramplab.native import kept

        os.environ["TRAMPLAB_CACHE"] = str(cache.folder())  # where it cannot be written, that is said once and not by every page
        os.environ["TRAMPLAB_DATA"] = str(paths.data_file("releases.yml").parent)  # as relative ones are none of a page's folder
        os.environ[cache.LINES] = str(rows / LINES)
        print(kept.prepare(rows), flush=True)
        os.environ[kept.CHOICE] = str(rows)
        small_pages()  # for the kernels of the pages; what was timed above has what any process has
        main(arguments)
    except Exception as e:  # Jupyter Book raises one of its own from what Sphinx raised
        cause = e.__cause__ or e
        if type(cause).__name__ != "PagesFailed":
            traceback.print_exception(cause)
            book_told.tell("error", **book_told.error(cause))
        sys.exit(FAILED)


def leave_out():
    """Have what no book needs not imported: the build starts more than a second sooner.

    jsonschema imports what checks addresses and durations in settings, where it is installed (JupyterLab brings it), and
    rfc3987_syntax builds large grammars: of these a book has none to check. And myst-nb imports the database, with all of
    SQLAlchemy, in which outputs are kept that are not to be made again: here all are.
    """
    for name in FORMATS:
        sys.modules[name] = None
    tables = types.ModuleType(TABLES)
    tables.__getattr__ = lambda _: object  # a class of each name
    sys.modules[TABLES] = tables


def watched(arguments: list[str], rows: Path) -> tuple[list[dict], int]:
    """Run it; what it told, and its exit status. It ends when this is interrupted, or when what started this is gone."""
    watching, end = socket.socketpair()
    process = multiprocessing.get_context("fork").Process(target=inside, args=(end, watching, arguments, rows))
    process.start()
    end.close()
    told = bytearray()
    try:
        listen(watching, process, told)
    finally:
        for number in SIGNALS:  # what is left to do takes no time, and is to be done once
            signal.signal(number, signal.SIG_IGN)
        end_all(watching, process)
    return [json.loads(line) for line in told.split(b"\n")[:-1]], process.exitcode


def listen(watching: socket.socket, process: multiprocessing.Process, told: bytearray):
    """Until all processes of the build have ended, or the one that is to say how it went."""
    parent = os.getppid()
    watching.settimeout(1)
    while True:
        try:
            if not (more := watching.recv(1 << 16)):
                return
            told += more
        except TimeoutError:
            if not process.is_alive():
                return
            if os.getppid() != parent:
                raise KeyboardInterrupt from None


def end_all(watching: socket.socket, process: multiprocessing.Process):
    """Tell the processes that are left to end, and wait for it."""
    try:
        with contextlib.suppress(OSError):  # the other end is gone
            watching.shutdown(socket.SHUT_WR)
        watching.settimeout(PATIENCE)
        while watching.recv(1 << 16):
            pass
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
    process.join()


def main(arguments: list[str]) -> int:
    """Build, put what is whole in its place, or say what went wrong; returns the exit status."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--path-output", type=Path, default=Path())
    parser.add_argument("--custom-builder", dest="kind")
    own, others = parser.parse_known_args(arguments)
    build, kind = own.path_output / "_build", own.kind or "html"
    others += ["--custom-builder", own.kind] if own.kind else []
    kept = f"; the one in {build / kind} is as it was" if (build / kind).exists() else ""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, signal.default_int_handler)
    try:
        with book_unfinished.folder(build) as folder:
            rows = folder.resolve() / "rows"
            told, status = watched([*others, "--path-output", str(folder)], rows)
            with contextlib.suppress(FileNotFoundError):
                print((rows / LINES).read_text("utf-8"), end="", file=sys.stderr, flush=True)
            if status == 0:
                book_unfinished.put(folder / "_build" / kind, build / kind)
                return 0
            command = "make text" if kind == "text" else "make book"
            lines = [f"== the book was not built{kept}", *book_report.report(told, status, command)]
    except KeyboardInterrupt:
        lines = [f"== the build was interrupted{kept}"]
    except book_unfinished.Busy:
        lines = [f"== another build is running in {build}: wait for its end, or stop it."]
    except OSError as e:
        lines = [f"== the book was not built{kept}", f"{e.filename or build}: {e.strerror}.", WRITABLE % build]
    print(*lines, sep="\n", file=sys.stderr, flush=True)
    return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
