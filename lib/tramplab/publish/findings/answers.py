"""Which sentences of its figures' answers a page says in short; a figure has above it only what is new there."""

from __future__ import annotations

from collections.abc import Sequence

from ..cite import cite

#: Page -> the figures whose answers it is in short, and which sentences of each: such as can be read without the question.
PAGES: dict[str, dict[str, tuple[int, ...]]] = {
    "real-kernels": {
        "fig-real-kernels": (0, 1),
        "fig-kernel-functions": (1,),
        "fig-kernel-hooks": (0,),
        "fig-kernel-flavours": (0,),
    },
    "counts-to-time": {
        "fig-return-stack": (0,),
        "fig-core-cases": (0, 1),
        "fig-published-call-ops": (0,),
    },
}


def chosen(sentences: Sequence[str], which: Sequence[int]) -> list[str]:
    """Sentences by their numbers, negative ones from the end; a number that there is not is left out.

    >>> chosen(["It holds.", "So it does."], (0, -1, 7))
    ['It holds.', 'So it does.']
    """
    return [sentences[n] for n in which if -len(sentences) <= n < len(sentences)]


def above(figure_id: str, answer: str) -> str:
    """What a figure says above its rows: of its answer the sentences that its page does not say in short.

    >>> above("fig-kernel-hooks", "This is said in short. This is new.")
    'This is new.'
    """
    sentences = cite.sentences(answer)
    said = {text for figures in PAGES.values() for text in chosen(sentences, figures.get(figure_id, ()))}
    return " ".join(text for text in sentences if text not in said)
