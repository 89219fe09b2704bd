"""The index of the search: for each word the sections that have it, and how much each of them is about it.

book/_static/search.js reads it, and takes the words of a query apart as words() does.
"""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

#: Weights of a word in a section, in steps; a hit in the index has the number of a step.
LEVELS = (0.1, 0.3, 0.7, 1.2, 2.0, 3.5, 6.0)
#: Pages that are lists of what other pages tell of count for less.
LISTS = {"book/references": 0.1, "book/claims": 0.4}
COMMON_TITLE = 0.5  # and so do sections that many pages have, such as their limits
EXCERPT = 120  # characters of a section that a result shows
_COMMON = """
a about after all also an and any are as at be been but by can do does each figure for from has have how if in
into is it its more most no not of on one only or other short so than that the their them then there these
they this those to two was were what when where which while who why will with without
""".split()
#: Counts and addresses, which are no words; what may be a kernel's version is one.
_NUMBER = re.compile(r"(?![2-9]\.\d{1,2}$)(\d+(\.\d+)*|0x\w*)")
_WORD = re.compile(r"v?\d+(?:\.\d+)+|[a-z0-9_]+")


def words(text: str) -> Iterator[str]:
    """The words of a text, each by its stem; an identifier and a version are whole. Words that say nothing are left out."""
    for word in _WORD.findall(text.lower()):
        found = stem(word)
        if found and word not in _COMMON and not _NUMBER.fullmatch(found):
            yield found


def stem(word: str) -> str:
    """The stem of a word: what `calls`, `called` and `calling` have in common. 'v6.12' is '6.12'.

    >>> [stem(word) for word in ("traces", "traced", "tracing", "missed", "ftrace_ops", "v6.12", "class")]
    ['trac', 'trac', 'trac', 'miss', 'ftrace_ops', '6.12', 'class']
    """
    if re.search(r"[\d_]", word):
        return re.sub(r"^v(?=\d+\.)", "", word.strip("_"))
    word = re.sub(r"(?<=\w{3})(?<!s)s$", "", word)
    return re.sub(r"(?<=\w{4})e$", "", re.sub(r"(?<=\w{4})(ing|ed)$", "", word))


def made(pages: dict) -> str:
    """The index as JSON of the pages' sections: name of a page -> [Section of book_search]."""
    every = [(page, section) for page, found in pages.items() for section in found]
    lengths = [len(section.text) for _, section in every]
    mean = max(1, sum(lengths) / max(1, len(lengths)))
    titles = Counter(section.title for _, section in every)
    hits: dict[str, list[int]] = defaultdict(list)
    last: dict[str, int] = {}
    for number, ((page, section), length) in enumerate(zip(every, lengths, strict=True)):
        part = LISTS.get(page, 1) * (COMMON_TITLE if titles[section.title] > 3 else 1)
        for word, weight in weights(section, max(0.5, length / mean)).items():
            level = _level(weight * part)
            hits[word].append((number - last.get(word, -1) - 1) * len(LEVELS) + level)
            last[word] = number
    names = list(pages)
    known = sorted(hits)
    return json.dumps(
        {
            "pages": [[name, title(pages[name][0].title) if pages[name] else name] for name in names],
            "levels": LEVELS,
            "common": " ".join(_COMMON),
            "sections": [[names.index(page), s.anchor, title(s.title), excerpt(s.text)] for page, s in every],
            "words": " ".join(_shortened(known)),
            "hits": " ".join(",".join(map(str, hits[word])) for word in known),
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def weights(section, length: float) -> dict[str, float]:
    """How much a section, so many times as long as the mean of all, is about each of its words."""
    found: dict[str, float] = defaultdict(float)
    for word, count in _counted(section.text).items():
        found[word] = 2 * count / (count + 0.4 + 0.8 * length)
    for word in _counted(" ".join(section.code)):
        found[word] += 0.5
    for word, count in _counted(" ".join(section.tables)).items():
        found[word] = max(found[word], count / (count + 5))
    named = list(words(section.title))
    pairs = [a + b for a, b in pairwise(named) if len(named) < 4]  # livepatch is "Live patching"
    for word in [*named, *pairs]:
        found[word] += 6 / math.sqrt(len(named) + 1)
    return found


def _counted(text: str) -> Counter[str]:
    """How often a text has each word, and each part of a longer name."""
    found = Counter(words(text))
    for name in [name for name in found if "_" in name]:
        found.update(dict.fromkeys(words(name.replace("_", " ")), 1))
    return found


def _level(weight: float) -> int:
    return min(range(len(LEVELS)), key=lambda n: abs(math.log(LEVELS[n] / weight)))


def title(text: str) -> str:
    """A section's title in one line."""
    return " ".join(text.split())


def excerpt(text: str) -> str:
    """The beginning of a section, to the end of a word."""
    text = text.removeprefix("In short").strip()
    return text if len(text) <= EXCERPT else f"{text[: text.rindex(' ', 0, EXCERPT)]} …"


def _shortened(known: list[str]) -> Iterator[str]:
    """Each word without what it has in common with the one before, and how long that is, as a letter."""
    for before, word in pairwise(["", *known]):
        differs = (n for n, (a, b) in enumerate(zip(before, word, strict=False)) if a != b)
        shared = min(next(differs, len(before)), 25)
        yield chr(ord("a") + shared) + word[shared:]
