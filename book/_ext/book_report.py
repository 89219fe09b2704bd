"""The last words of a build that failed: where, which cell, what it said, and what to do."""

import re
import signal
import textwrap

import book_told

from tramplab.base import errors

KINDS = ("cell", "kernel", "stderr", "page", "warning", "error")
MOST = 10  # warnings that are listed
LINES = 8  # of what an error says
OWN = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.TramplabError)}


def report(told: list[dict], status: int, command: str) -> list[str]:
    """The lines that say what went wrong, from what the build has told and the status of its process."""
    of = {kind: [fact for fact in told if fact["kind"] == kind] for kind in KINDS}
    lines, do = [], []

    def add(where: str, said: str, what: str):
        lines.extend([f"{where}:", textwrap.indent(said, "  ")] if where else [said])
        if what not in do:
            do.append(what)

    for fact in of["cell"]:
        add(book_told.title(fact), words(fact), remedy(fact, FIX_CELL))
    for fact in of["stderr"]:
        add(book_told.title(fact), f"it printed to stderr: {text(fact)}", FIX_CELL)
    for fact in of["kernel"]:
        what = MEMORY if "memory" in fact["end"] else FIX_CELL
        add(book_told.title(fact), f"the kernel that executed it {fact['end']}.", what)
    for fact in of["page"]:
        add(fact["page"], words(fact), remedy(fact, "correct the page"))
    # A page's text twin repeats the warnings of the page.
    warnings = [fact for n, fact in enumerate(of["warning"]) if fact not in of["warning"][:n]]
    full = [fact for fact in warnings if FULL in fact["sentence"]]  # one for each file, of which there are hundreds
    if full:
        add("", f"{len(full)} files could not be written: {FULL}.", SPACE)
    warnings = [fact for fact in warnings if fact not in full]
    for fact in warnings[:MOST]:
        line = f", line {fact['line']}" if fact["line"] else ""
        add(fact["page"] + line, text(fact, 1), "fix what is listed, as a warning is an error here")
    if len(warnings) > MOST:
        lines.append(f"... and {len(warnings) - MOST} more warnings; the log above has them all.")
    for fact in of["error"]:
        if fact["name"] == "EOFError":  # what Sphinx meets where it waits for a process that is no more
            add(pages(told), f"the process that executed a page {book_told.how_it_ended(-signal.SIGKILL)}.", MEMORY)
        else:
            add("" if fact["name"] in OWN else fact["at"], words(fact), advice(fact))
    if not lines:
        add(pages(told), f"the build {book_told.how_it_ended(status)}.", MEMORY if status == -signal.SIGKILL else FIX)
    lab = LAB if of["cell"] or of["stderr"] else ""
    return [*lines, f"What to do: {'; '.join(do)}, then `{command}` again{lab}."]


FIX_CELL = "fix the cell or what it calls"
FIX = "fix what the log above shows"
MEMORY = "give the build more memory, or one processor (`taskset -c 0`), which executes one page at a time"
FULL, SPACE = "No space left on device", "free space on the disk"
LAB = "; `make lab` runs a page cell by cell"


def remedy(fact: dict, otherwise: str) -> str:
    """What to do about an error: where it is not the page's, what the machine lacks."""
    lacking = {FULL: SPACE, "Cannot allocate memory": MEMORY, "Kernel died": MEMORY}
    said = "Cannot allocate memory" if fact["name"] == "MemoryError" else fact["sentence"]
    return next((what for words, what in lacking.items() if words in said), otherwise)


def advice(fact: dict) -> str:
    """What to do about an error that is no page's; one that is made for readers says it itself."""
    return remedy(fact, "do as it says" if fact["name"] in OWN else FIX)


def words(fact: dict) -> str:
    """What an error says: the sentence alone where it is made for readers, otherwise with the error's name."""
    said = text(fact)
    return said if fact["name"] in OWN and said else f"{fact['name']}: {said}".rstrip(": ")


def text(fact: dict, most: int = LINES) -> str:
    """Its first lines, without colours and the box that Jupyter Book draws."""
    lines = re.sub(r"\x1b\[[\d;]*m|={9,}", "", fact["sentence"]).strip().splitlines()
    return "\n".join(lines[:most])


def pages(told: list[dict]) -> str:
    """The pages that were being read when the telling stopped."""
    begun, ended = ([f["page"] for f in told if f["kind"] == kind] for kind in ("begun", "ended"))
    return ", ".join(page for page in begun if page not in ended)
