"""Every figure of a study, shown: its answer stands above it, and its text fits into a mail."""

from tramplab.publish.figures.show import show
from tramplab.publish.findings import answers


def shown_with_answers(study):
    """Shows each, with what its page does not say in short; gives the figures."""
    frame = study.rows()
    for figure in study.FIGURES:
        shown = show(study, figure.id, frame)
        answer = figure.answer(figure.rows(frame))
        above = answers.above(figure.id, answer)
        assert answer.endswith(".") and " ".join(above.split()[:4]) in " ".join(shown.text.split())
        assert max(map(len, shown.text.splitlines())) <= 72
    return study.FIGURES
