"""The English of the checkout, with the line it stands in: prose of pages, and docstrings, strings and comments of Python."""

import ast
import io
import tokenize

from tramplab_book.publish.cite import pages


def words_of(text: str, first: int = 1) -> list[tuple[int, str]]:
    """The lines of a page that are prose: outside code, with captions; roles and inline code are an x."""
    found: dict[int, str] = {}
    for token in pages.tokens(text):
        line = first + token.map[0] if token.map else first
        if token.type == "html_block":
            found |= enumerate(token.content.splitlines(), line)
        elif token.type == "fence":
            caption = pages.cell(token)[0].get("mystnb", {}).get("figure", {}).get("caption", "")
            begin = next(iter(caption.splitlines()), "")
            before = text.splitlines()[line - first : token.map[1]]
            found |= words_of(caption, line + next(n for n, said in enumerate(before) if begin in said))
        for part in token.children or ():
            if part.type in ("softbreak", "hardbreak"):
                line += 1
            elif part.type in ("text", "html_inline", "code_inline", "myst_role"):
                found[line] = found.get(line, "") + (part.content if part.type in ("text", "html_inline") else "x")
    return sorted(found.items())


def python_words(source: str) -> list[tuple[int, str]]:
    """Docstrings, comments, and the strings with a space in them; what is formatted into a string is an x."""
    found, parts = [], set()
    for node in ast.walk(ast.parse(source)):
        text = ""
        if isinstance(node, ast.JoinedStr):
            parts |= {id(part) for part in node.values}
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            text = node.value
        if " " in text.strip():
            found += [(node.lineno + n, line) for n, line in enumerate(text.splitlines())]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sorted(found + [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT])
