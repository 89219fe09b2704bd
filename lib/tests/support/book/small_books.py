"""Small books with the settings of this one, built as it is built: for builds that go wrong, and the rules of its pages."""

import json
import os
import shutil
import sys
from pathlib import Path

import yaml

from support import ROOT
from tramplab.base import cache

FRONT_MATTER = "---\nfile_format: mystnb\nkernelspec: {name: python3, display_name: Python 3}\n---\n"


def page(title: str, body: str) -> str:
    """The source of a page; one without cells is no notebook, for which a kernel would be started."""
    return f"{FRONT_MATTER if '{code-cell}' in body else ''}# {title}\n\n{body}"


def small_book(folder: Path, body: str) -> tuple[list[str], dict[str, str]]:
    """A book of one page in `folder`; returns the command that builds it as `make book` does, and its environment."""
    for name in ("Makefile", "_config.yml", "requirements.txt"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("_ext", "_static"):
        shutil.copytree(ROOT / "book" / name, folder / "book" / name)  # with its bytecode, which need not be made again
    shutil.copy(ROOT / "book" / "references.bib", folder / "book" / "references.bib")
    (folder / "lib" / "tramplab_book").mkdir(parents=True)
    for name in ("lib/pyproject.toml", "lib/tramplab_book/pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "_toc.yml").write_text(yaml.safe_dump({"format": "jb-book", "root": "book/index"}), "utf-8")
    (folder / "book" / "index.md").write_text(page("Small", body), "utf-8")
    # A user whose own kernel of the same name and IPython start-up file must not matter.
    home = folder / "home"
    kernel = home / ".local" / "share" / "jupyter" / "kernels" / "python3" / "kernel.json"
    start = home / ".ipython" / "profile_default" / "startup" / "00.py"
    for path in (kernel, start):
        path.parent.mkdir(parents=True)
    spec = {"argv": ["/bin/false", "{connection_file}"], "display_name": "x", "language": "python"}
    kernel.write_text(json.dumps(spec), "utf-8")
    start.write_text("import sys; print('start-up file', file=sys.stderr)", "utf-8")
    installed = f"{sys.prefix}/installed"  # -o: the environment this test runs in is taken as it is
    command = ["make", "book", f"VENV={sys.prefix}", "-o", installed]
    # ... and what the other tests have built need not be built again; no page of such a book shows times
    own = {"TRAMPLAB_CACHE": str(cache.folder()), "TRAMPLAB_TIMES": "off"}
    return command, {**os.environ, **own, "HOME": str(home), "MAKEFLAGS": "", "MAKELEVEL": "0", "NO_COLOR": "1"}


OLD = "the book that was there"


def book(folder: Path, pages: dict[str, str]):
    """A small book of several pages where an older one was built; the command that builds it, and its environment."""
    command, environment = small_book(folder, "Text.\n")
    pages = {**pages, **dict.fromkeys("uvwxyz"[: max(0, 6 - len(pages))], "Text.\n")}  # from six on they are read in parallel
    for name, body in pages.items():
        (folder / "book" / f"{name}.md").write_text(page(f"Page {name}", body), "utf-8")
    toc = {"format": "jb-book", "root": "book/index", "chapters": [{"file": f"book/{name}"} for name in pages]}
    (folder / "_toc.yml").write_text(yaml.safe_dump(toc), "utf-8")
    (folder / "_build" / "html").mkdir(parents=True)
    (folder / "_build" / "html" / "index.html").write_text(OLD, "utf-8")
    return command, environment
