"""Pages as plain text: Sphinx's text writer with whole words, plain tables and what a terminal reader needs."""

import itertools
import textwrap

from docutils import nodes
from sphinx.writers.text import TextTranslator

from tramplab.base.width import WIDTH

INDENT = 4  # of code and outputs, where their lines leave room for it
INLINE = 60  # characters of an address that stands in a paragraph
GAP = 2  # between the columns of a table
STRAIGHT = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "--", "…": "...", "\u00a0": " "})
HIDDEN = {"tag_hide-input", "tag_hide-cell"}


class Translator(TextTranslator):
    """A page as text of at most WIDTH columns, unless a literal line or a word is longer: those are never cut."""

    def __init__(self, document, builder):
        super().__init__(document, builder)
        self.sectionchars = "=-~^'`"
        self.links: dict[str, int] = {}  # address -> number, counted on from the page's own footnotes
        self.first_link = len(list(document.findall(nodes.footnote))) + 1
        self.rows: list[list[str]] = []
        self.header_rows = 0

    # -- blocks

    def end_state(self, wrap=True, end=("",), first=None):
        """End a block as Sphinx's writer does, but keep words whole: an id that is broken at its hyphen cannot be searched for."""
        room, indent = WIDTH - sum(self.stateindent), self.stateindent.pop()
        blocks = []
        for inline, items in itertools.groupby(self.states.pop(), key=lambda item: item[0] == -1):
            if inline:
                text = "".join(text for _, text in items)
                blocks.append((indent, [*(filled(text, room) if wrap else text.splitlines()), *(end or ())]))
            else:
                blocks += [(indent + inner, lines) for inner, lines in items]
        if first is not None and blocks:
            inner, lines = blocks[0]
            blocks[:1] = [(inner - indent, [first + lines[0]]), (inner, lines[1:])]
        self.states[-1].extend(blocks)

    def block(self, lines):
        """Add finished lines and an empty one."""
        self.states[-1].append((0, [*lines, ""]))

    def depart_document(self, node):
        if self.links:
            self.block(["", "Links", "-----"])
            for url, number in self.links.items():
                self.states[-1].append((0, address(f"[{number}] ", url)))
        super().depart_document(node)

    def visit_literal_block(self, node):
        lines = node.astext().rstrip().splitlines()
        widest = max(map(len, lines), default=0)
        indent = INDENT if widest + INDENT + sum(self.stateindent) <= WIDTH else 0
        self.block([" " * indent + line if line.strip() else "" for line in lines])
        raise nodes.SkipNode

    visit_doctest_block = visit_literal_block

    def visit_transition(self, node):
        self.block(["* * *"])
        raise nodes.SkipNode

    def visit_title(self, node):
        if not node.astext():  # that of a margin note
            raise nodes.SkipNode
        super().visit_title(node)

    # -- cells and figures

    def visit_container(self, node):
        cell = set(node.parent.get("classes", []))
        if "cell_input" in node["classes"] and cell & HIDDEN:
            raise nodes.SkipNode
        plain = any(node.findall(nodes.literal_block)) and not any(node.findall(nodes.figure))
        below_code = not cell & HIDDEN and any("cell_input" in other["classes"] for other in node.parent)
        if "cell_output" in node["classes"] and plain and below_code:
            self.block(["Output:"])

    def visit_figure(self, node):
        """Put the caption first: it says what the rows and letters of the table mean."""
        node[:] = sorted(node, key=lambda part: not isinstance(part, nodes.caption))
        self.new_state(0)

    def visit_caption(self, node):
        """Write the figure's number, and the id by which it is cited."""
        docname = self.builder.current_docname
        numbers = self.builder.env.toc_fignumbers.get(docname, {}).get("figure", {})
        for name in node.parent["ids"]:
            if name in numbers:
                number = ".".join(map(str, numbers[name]))
                self.add_text(f"{self.config.numfig_format['figure'] % number}, {name}: ")

    def visit_image(self, node):
        self.add_text(f"[image: {node['alt']}]" if node.get("alt") else "[image]")
        raise nodes.SkipNode

    def visit_rubric(self, node):
        self.new_state(0)
        self.add_text("-- ")

    def depart_rubric(self, node):
        self.add_text(" --")
        self.end_state()

    # -- words

    def visit_Text(self, node):
        self.add_text(node.astext().translate(STRAIGHT))

    def visit_literal(self, node):
        self.add_text(f"`{node.astext()}`")
        raise nodes.SkipNode

    def visit_number_reference(self, node):
        """Write the number of a figure: Sphinx's writer prints the unfilled template, "Fig. %s"."""
        self.add_text(node.astext())
        raise nodes.SkipNode

    def visit_reference(self, node):
        """Give a link that leaves the book a number; its address stands at the end of the page."""
        url = node.get("refuri", "")
        if node.astext() == url and len(url) > INLINE:
            self.add_text(self.link(url))
            raise nodes.SkipNode
        super().visit_reference(node)

    def depart_reference(self, node):
        url = node.get("refuri", "")
        if "://" in url and node.astext() != url:
            self.add_text(f" {self.link(url)}")

    def link(self, url):
        """The number of an address, the same wherever the page links to it."""
        return f"[{self.links.setdefault(url, self.first_link + len(self.links))}]"

    # -- tables

    def visit_table(self, node):
        self.new_state(0)
        self.rows, self.header_rows = [], 0

    def visit_colspec(self, node):
        raise nodes.SkipNode

    def visit_tbody(self, node):
        self.header_rows = len(self.rows)

    def visit_row(self, node):
        self.rows.append([])

    def visit_entry(self, node):
        self.new_state(0)

    def depart_entry(self, node):
        self.stateindent.pop()
        words = " ".join(" ".join(lines) for _, lines in self.states.pop()).split()
        self.rows[-1].append(" ".join(words))

    def depart_table(self, node):
        self.block(columns(self.rows, self.header_rows, WIDTH - sum(self.stateindent)))
        self.end_state()


def filled(text, width):
    """A paragraph as lines; words are never broken."""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def address(label, url):
    """A labelled address as lines: on one if it fits, then on one of its own, then folded.

    A folded one goes on in the next line, indented: an address has no spaces, so nothing is lost.
    """
    if len(label) + len(url) <= WIDTH:
        return [label + url]
    if len(url) <= WIDTH:
        return [label.rstrip(), url]
    room = WIDTH - INDENT
    folds = (" " * INDENT + url[at : at + room] for at in range(WIDTH, len(url), room))
    return [label.rstrip(), url[:WIDTH], *folds]


def columns(rows, header_rows, width):
    """A table as lines: a rule under its header, cells wrapped where it would be too wide, then rows set apart."""
    widths = column_widths(rows, width)
    lines = []
    wrapped = [[filled(cell, room) or [""] for cell, room in zip(row, widths, strict=True)] for row in rows]
    apart = any(len(cell) > 1 for row in wrapped[header_rows:] for cell in row)
    for number, row in enumerate(wrapped):
        if number == header_rows and number:
            lines.append((" " * GAP).join("-" * room for room in widths))
        elif apart and number > header_rows:
            lines.append("")
        for line in itertools.zip_longest(*row, fillvalue=""):
            cells = (cell.ljust(room) for cell, room in zip(line, widths, strict=True))
            lines.append((" " * GAP).join(cells).rstrip())
    return lines


def column_widths(rows, width):
    """The natural widths of columns if they fit; else each has its longest word's, and the rest goes first to columns in little
    need."""
    cells = list(zip(*rows, strict=True))
    natural = [max([1, *map(len, column)]) for column in cells]
    widths = [max([1, *(len(word) for cell in column for word in cell.split())]) for column in cells]
    free = width - GAP * (len(cells) - 1) - sum(widths)
    for i in sorted(range(len(cells)), key=lambda i: natural[i] - widths[i]):
        more = max(0, min(natural[i] - widths[i], free))
        widths[i] += more
        free -= more
    return widths
