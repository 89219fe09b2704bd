"""The words to lose, and typing errors: codespell over the pages, the documents, and the English of the Python sources.

A word is in support/checkout/vocabulary.txt if it is wrong in every sense that this book has for it, with what to write instead.
Words that are right in some senses (behind, alone, tell) are left to the reviewer; phrases are in PHRASES. Code is not checked:
only prose, docstrings, comments and strings with a space are, without what is between backquotes.
"""

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from support import ROOT
from support.checkout.prose import python_words, words_of

HERE = ROOT / "lib" / "tests" / "support" / "checkout"
WORDS = HERE / "vocabulary.txt"
#: Of pages and documents only: sources have it in notes that data/kernels keeps.
PAGES = HERE / "vocabulary_pages.txt"
#: Phrase -> what to write instead.
PHRASES = {
    r"\b(?:hands?|handed|handing) on\b": "passes",
    r"\b(?:bears?|bore|borne) out\b": "agrees with, confirms",
    r"\bas long as before\b": "of the same length",
    r"\bin vain\b": "without effect",
    r"\bis none that\b": "name what it is",
    r"\b(?:takes?|taken) off\b": "saves, removes, detaches",
}
#: Names that codespell takes for typing errors.
NO_TYPOS = ("opps",)


def documents() -> list[Path]:
    """The pages, the findings on them, and what a contributor reads."""
    pages, findings = (ROOT / "book").glob("*.md"), (ROOT / "data" / "findings").glob("*.yml")
    return [*sorted(pages), *sorted(findings), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def sources() -> list[Path]:
    """The Python of the package and of the book's extensions."""
    return [path for folder in ("lib/tramplab", "lib/tramplab_book", "book/_ext") for path in sorted((ROOT / folder).rglob("*.py"))]


def english(path: Path) -> list[tuple[str, str]]:
    """(file:line, words) of a file; names between backquotes are an x."""
    text = path.read_text("utf-8")
    lines = words_of(text) if path.suffix in (".md", ".yml") else python_words(text)
    return [(f"{path.relative_to(ROOT)}:{line}", re.sub(r"`[^`]*`", "x", words)) for line, words in lines]


def flagged(lines: Iterable[tuple[str, str]], *dictionaries: Path) -> list[str]:
    """Words and phrases to lose: "file:line: word ==> instead"."""
    lines = list(lines)
    text = "".join(f"{words}\n" for _, words in lines)
    options = [option for dictionary in dictionaries for option in ("--dictionary", str(dictionary))]
    builtin = ["--dictionary", "-", "--builtin", "clear", "--ignore-words-list", ",".join(NO_TYPOS)]
    command = [sys.executable, "-m", "codespell_lib", *builtin, *options, "--disable-colors", "-"]
    done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8")
    assert done.returncode in (0, 65) and not done.stderr, done.stderr
    found = []
    for number, complaint in re.findall(r"^(\d+): .*\n\t(.*)$", done.stdout, re.M):
        found.append(f"{lines[int(number) - 1][0]}: {complaint}")
    for place, words in lines:
        found += [f"{place}: {m[0]} ==> {new}" for old, new in PHRASES.items() for m in re.finditer(old, words, re.I)]
    return found


def test_no_page_or_document_has_a_word_to_lose():
    assert flagged((line for path in documents() for line in english(path)), WORDS, PAGES) == []


def test_no_source_has_a_word_to_lose():
    assert flagged((line for path in sources() for line in english(path)), WORDS) == []


@pytest.mark.parametrize("dictionary", [WORDS, PAGES], ids=lambda path: path.stem)
def test_a_dictionary_is_sorted_and_says_what_to_write(dictionary):
    lines = dictionary.read_text("utf-8").splitlines()
    assert lines == sorted(lines) and all(re.fullmatch(r"[a-z]+->[a-z][a-zA-Z, ]+", line) for line in lines)


def test_words_and_phrases_are_flagged_with_their_place(monkeypatch, tmp_path):
    """In prose, docstrings, comments and messages; not in labels, addresses and code, nor in a string that is one word."""
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    page.write_text("(whom-it-serves)=\n# Whom\n\nIt hands on [text](dear.html#anew), `anew`.\n\n```\nanew\n```\n", "utf-8")
    module.write_text('"""First.\n\nWhoever asks."""\n\n#: Mended.\nA = {"mend": dear}\nraise E(f"try {A} anew")\n', "utf-8")
    assert [line.partition(" ==> ")[0] for path in (page, module) for line in flagged(english(path), WORDS)] == [
        "page.md:2: Whom",
        "page.md:4: hands on",
        "module.py:3: Whoever",
        "module.py:5: Mended",
        "module.py:7: anew",
    ]
