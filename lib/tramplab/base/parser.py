"""How command lines are read: what is wrong with one is a TramplabError, also what argparse takes in silence or trips over."""

from __future__ import annotations

import argparse
import itertools
import sys
from typing import Any, NoReturn

from .errors import TramplabError


class Parser(argparse.ArgumentParser):
    """Takes each option once, and no argument that is empty."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        for name in (None, "store"):
            self.register("action", name, _Once)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does it, which trips over `--option=--`: it takes the two dashes for the end of the options."""
        words = sys.argv[1:] if args is None else list(args)
        for option, _, value in (word.partition("=") for word in itertools.takewhile("--".__ne__, words)):
            if option.startswith("-") and value == "--":
                self.error(f"{option} takes a value, and -- is none")
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where it stands what is right."""
        raise TramplabError(f"{message} (try: {self.prog} --help).")


class _Once(argparse.Action):
    """Keeps what an option or a place is given."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: str | None = None) -> None:
        name = option_string or str(self.metavar)
        if "" in (values if isinstance(values, list) else [values]):
            parser.error(f"{name} is empty: give it a value, or leave it away")
        given: set[str] = vars(namespace).setdefault("given", set())
        if option_string and self.dest in given:
            parser.error(f"{name} is there twice: leave one of them away")
        given.add(self.dest)
        setattr(namespace, self.dest, values)
