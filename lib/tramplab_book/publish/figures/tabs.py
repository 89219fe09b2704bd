"""Parts of a figure under tabs: one is seen at a time, chosen without a script; where no style sheet is, all are."""

import html
from collections.abc import Sequence


def tabbed(figure_id: str, parts: Sequence[tuple[str, str]]) -> str:
    """HTML of parts, (label, HTML) each, the first one chosen; a single part is as it is.

    A label names its part to a screen reader, too. book/_static/tabs.css shows the part of the chosen label.
    """
    if len(parts) == 1:
        return parts[0][1]
    chosen = ' checked="checked"'
    buttons, panes = [], []
    for n, (label, part) in enumerate(parts):
        name = f"{figure_id}-tab-{n}"
        text = html.escape(label)
        buttons.append(
            f'<input type="radio" name="{figure_id}-tab" id="{name}"{chosen * (not n)}><label for="{name}">{text}</label>'
        )
        panes.append(f'<div class="tl-pane" role="group" aria-label="{text}">{part}</div>')
    return f'<div class="tl-tabs">{"".join(buttons)}{"".join(panes)}</div>'
