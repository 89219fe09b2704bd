"""A style sheet without the rules that cannot apply to any page of the book."""

import re
from collections.abc import Callable, Iterator

import tinycss2
from tinycss2.ast import Node, QualifiedRule

_NAME = re.compile(r"-?[A-Za-z_][\w-]*")


def names(text: str) -> set[str]:
    """Everything in a page or a script that could be a class or an id."""
    return set(_NAME.findall(text))


def reduced(css: str, used: set[str], block: Callable[[QualifiedRule], str]) -> str:
    """The rules whose classes and ids are all in `used`, in their order; licence notices (/*! ... */) stay.

    `block` writes a kept rule's declarations, or nothing to leave it out. @font-face is left out: the theme's only fonts
    are those of its icons.
    """
    return "".join(_reduced(tinycss2.parse_stylesheet(css, skip_whitespace=True), used, block))


def _reduced(rules: list[Node], used: set[str], block) -> Iterator[str]:
    for rule in rules:
        if rule.type == "comment":
            if rule.value.startswith("!"):
                yield f"{rule.serialize()}\n"
        elif rule.type == "qualified-rule":
            if any(needed <= used for needed in _needed(rule.prelude)) and (text := block(rule)):
                yield f"{tinycss2.serialize(rule.prelude).strip()}{{{text}}}\n"
        elif rule.type == "at-rule" and rule.lower_at_keyword in ("media", "supports"):
            inner = "".join(_reduced(tinycss2.parse_rule_list(rule.content, skip_whitespace=True), used, block))
            if inner:
                yield f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{\n{inner}}}\n"
        elif rule.type != "at-rule" or rule.lower_at_keyword != "font-face":
            yield f"{rule.serialize()}\n"


def _needed(prelude: list[Node]) -> Iterator[set[str]]:
    """The classes and ids that each selector of a rule asks for; those inside :not(), :is() and the like do not count."""
    found, dot = set(), False
    for token in prelude:
        if token.type == "literal" and token.value == ",":
            yield found
            found = set()
        elif token.type == "hash" or (token.type == "ident" and dot):
            found.add(token.value)
        dot = token.type == "literal" and token.value == "."
    yield found
