"""Builds that fail: what they say at last, and that the book that was there stays."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import book_build
import book_forked
import book_lines
import book_patience
import book_report
import book_told

from support.small_books import OLD, book, executed_at_once


def last_words(folder: Path, command, environment) -> list[str]:
    """What a build that fails says from its summary on, without the line of make."""
    done = subprocess.run(command, cwd=folder, env=environment, stdout=-1, stderr=subprocess.STDOUT, encoding="utf-8")
    assert done.returncode != 0 and (folder / "_build" / "html" / "index.html").read_text("utf-8") == OLD, done.stdout
    assert sorted(os.listdir(folder / "_build")) == [".unfinished.lock", "html"]
    start = "== the book was not built; the one in _build/html is as it was\n"
    assert done.stdout.count(start) == 1, done.stdout
    *lines, make = done.stdout.partition(start)[2].splitlines()
    assert re.fullmatch(r"make.* Error 1", make)
    return lines


# -- what is said of cells and pages

CELLS = {
    "lab": "```{code-cell}\n---\ntags: [a, b]\nname: c\n---\n\n# the lab\nfrom tramplab import Kernel\nKernel('sparc')\n```\n",
    "name": "```{code-cell}\n:tags: [a]\n\nx = 1\n```\n\nText.\n\n```{code-cell}\nif x:\n    nothing(x)\n```\n",
    "killed": "```{code-cell}\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)\n```\n",
    "full": "```{code-cell}\nraise OSError(28, 'No space left on device')\n```\n",
    "prints": "```{code-cell}\nimport sys; print('careful', file=sys.stderr)\n```\n",
    "yaml": "```{code-cell}\n---\ntags: [\n---\n1\n```\n",
}
FAULTS = {
    "# the lab": "  unknown ISA 'sparc'. Known: x86_64, arm64, riscv64.",
    "if x:": "  NameError: name 'nothing' is not defined",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": (
        "  the kernel that executed it was killed (SIGKILL), which Linux does when memory runs out."
    ),
    "raise OSError(28, 'No space left on device')": "  OSError: [Errno 28] No space left on device",
    "import sys; print('careful', file=sys.stderr)": "  it printed to stderr: careful",
}


def test_every_cell_that_fails_is_said_last_with_its_line_and_what_to_do(tmp_path):
    lines = last_words(tmp_path, *book(tmp_path, CELLS))
    cells = {m[3]: (m, n) for n, line in enumerate(lines) if (m := re.fullmatch(r"(\S+), line (\d+), the cell `(.*)`:", line))}
    assert set(cells) == set(FAULTS), lines
    for cell, (where, n) in cells.items():
        assert (tmp_path / where[1]).read_text("utf-8").splitlines()[int(where[2]) - 1] == cell
        assert lines[n + 1] == FAULTS[cell]
    page = lines.index("book/yaml.md:")
    assert lines[page + 1].startswith("  MystMetadataParsingError: Code cell 1 at line 7 could not be read:")
    what, then = re.fullmatch(r"What to do: (.*), (then .*)", lines[-1]).groups()
    assert sorted(what.split("; ")) == [
        "correct the page",
        "fix the cell or what it calls",
        "free space on the disk",
        "give the build more memory, or one processor (`taskset -c 0`), which executes one page at a time",
    ]
    assert then == "then `make book` again; `make lab` runs a page cell by cell."
    assert len(lines) == 2 * (len(FAULTS) + 1) + 1


def test_of_warnings_ten_are_listed_with_their_lines(tmp_path):
    cell = "```{code-cell}\n---\ntags: [a]\n---\n1\n```\n"
    text = "".join(f"{{doc}}`nowhere{n}`\n\n{[cell, '', chr(10)][n % 3]}" for n in range(13))
    lines = last_words(tmp_path, *book(tmp_path, {}, text))
    page = (tmp_path / "book" / "index.md").read_text("utf-8").splitlines()
    assert lines[:20] == [
        line
        for n in range(10)
        for line in (f"book/index.md, line {page.index(f'{{doc}}`nowhere{n}`') + 1}:", f"  unknown document: 'nowhere{n}'")
    ]
    assert lines[20:] == [
        "... and 3 more warnings; the log above has them all.",
        "What to do: fix what is listed, as a warning is an error here, then `make book` again.",
    ]


def test_an_error_of_the_books_own_extension_is_said_with_its_place(tmp_path):
    command, environment = book(tmp_path, {})
    extension = tmp_path / "book" / "_ext" / "book_files.py"
    source = extension.read_text("utf-8").replace("folder = Path(os.environ[FOLDER])\n", "folder = Path(os.environ['NO'])\n")
    extension.write_text(source, "utf-8")
    line = source[: source.index("'NO'")].count("\n") + 1
    assert last_words(tmp_path, command, environment) == [
        f"book/_ext/book_files.py, line {line}:",
        "  KeyError: 'NO'",
        "What to do: fix what the log above shows, then `make book` again.",
    ]


def killing(which: str) -> str:
    """A cell that kills processes of its build: `forks` is the one that it was forked from, `build` the one that started that."""
    return (
        "```{code-cell}\nimport os\nimport psutil\nforks = psutil.Process(os.getppid())\nbuild = forks.parent()\n"
        f"for process in {which}:\n    process.kill()\nimport time; time.sleep(600)\n```\n"
    )


def test_a_process_that_is_killed_is_said_with_its_pages(tmp_path):
    cell = killing("set(build.children()) - {forks}")
    lines = last_words(tmp_path, *book(tmp_path, {"a": cell}))
    assert re.fullmatch(r"(\S+, )*book/a\.md(, \S+)*:", lines[0])
    assert lines[1] == "  the process that executed a page was killed (SIGKILL), which Linux does when memory runs out."


def test_where_none_can_be_forked_kernels_are_started(tmp_path):
    """When the process is killed that kernels are forked from they end with it, and those of later pages start as usual."""
    says = "```{code-cell}\nimport sys\nraise ValueError(sys.orig_argv[1:3])\n```\n"
    command, environment = book(tmp_path, {"a": says, "b": killing("[forks]"), "c": says})
    executed_at_once(tmp_path, 1)
    lines = last_words(tmp_path, command, environment)
    said = {line.partition(",")[0]: then for line, then in zip(lines[:6:2], lines[1:6:2], strict=True)}
    assert re.fullmatch(r"  ValueError: \['\S+book_forks.py', '\d+'\]", said["book/a.md"])
    assert said["book/b.md"] == "  the kernel that executed it was killed (SIGKILL), which Linux does when memory runs out."
    assert said["book/c.md"] == "  ValueError: ['-m', 'ipykernel_launcher']"


@pytest.mark.parametrize(
    "status, said", [(-9, "was killed (SIGKILL), which"), (-11, "ended by SIGSEGV"), (3, "ended with status 3")]
)
def test_a_build_that_ends_without_a_word(status, said):
    told = [{"kind": kind, "page": page} for kind, page in (("begun", "a"), ("begun", "b"), ("ended", "a"))]
    lines = book_report.report(told, status, "make book")
    assert lines[0] == "b:" and said in lines[1] and len(lines) == 3


def test_of_a_full_disk_one_line_is_said():
    """Not one for each file of the theme."""
    said = "Failed to copy a file in the theme's 'static' directory: {}: OSError(28, 'No space left on device')"
    told = [{"kind": "warning", "page": "", "line": 0, "sentence": said.format(n)} for n in range(99)]
    told += [{"kind": "warning", "page": "a", "line": 3, "sentence": "unknown document: 'b'"}]
    assert book_report.report(told, 1, "make book") == [
        "99 files could not be written: No space left on device.",
        "a, line 3:",
        "  unknown document: 'b'",
        "What to do: free space on the disk; fix what is listed, as a warning is an error here, then `make book` again.",
    ]


def test_a_build_that_cannot_begin_says_why(tmp_path):
    """The folder of its rows is the first that it makes, perhaps on a full disk."""
    begin = "import book_build, pathlib; print(*book_build.watched([], pathlib.Path('nowhere/rows')))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "book" / "_ext"), str(ROOT / "lib")])}
    command = [sys.executable, "-c", begin]
    done = subprocess.run(command, cwd=tmp_path, env=environment, stdout=-1, stderr=-1, encoding="utf-8", check=True)
    assert re.fullmatch(r"\[{'kind': 'error', 'name': 'FileNotFoundError', .*'nowhere/rows'.*}\] 1\n", done.stdout)


@pytest.mark.parametrize("module", [book_forked, book_lines, book_patience, book_told])
def test_the_examples_in_the_books_own_modules(module):
    done = doctest.testmod(module)
    assert done.attempted and not done.failed


def test_the_box_of_jupyter_book_is_left_out():
    box = "\n\x1b[91m" + "=" * 79 + "\x1b[0m\n\nThe table is malformed\n\n\x1b[91m" + "=" * 79 + "\x1b[0m\n"
    fact = {"kind": "error", **book_told.error(RuntimeError(box))}
    assert book_report.report([fact], 1, "make text")[0] == "RuntimeError: The table is malformed"


def test_a_cache_that_cannot_be_written_is_said_once(tmp_path):
    command, environment = book(tmp_path, CELLS)
    (tmp_path / "file").touch()
    lines = last_words(tmp_path, command, environment | {"TRAMPLAB_CACHE": str(tmp_path / "file" / "cache")})
    where = f"cannot keep files in {tmp_path}/file/cache (Not a directory)"
    assert lines == [
        f"{where}: set TRAMPLAB_CACHE to a folder that can be written.",
        "What to do: do as it says, then `make book` again.",
    ]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, capsys):
    (tmp_path / "_build").write_text("", "utf-8")
    assert book_build.main(["build", ".", "--path-output", str(tmp_path)]) == book_build.FAILED
    assert capsys.readouterr().err.splitlines()[1:] == [
        f"{tmp_path}/_build: File exists.",
        f"What to do: see that {tmp_path}/_build is a folder that can be written, on a disk with space, then build again.",
    ]
