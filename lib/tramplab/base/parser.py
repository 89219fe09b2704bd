"""How command lines are read: what is wrong with one is a TramplabError, also what argparse takes in silence or trips over."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from .errors import TramplabError


class Parser(argparse.ArgumentParser):
    """Takes each option once, and no argument that is empty."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        for name in (None, "store"):
            self.register("action", name, _Once)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where it stands what is right."""
        raise TramplabError(f"{message} (try: {self.prog} --help).")


class _Once(argparse.Action):
    """Stores the value of an option or an argument; refuses an empty value, and an option that is there twice."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: str | None = None) -> None:
        name = option_string or str(self.metavar)
        if values in ([], "--") and self.nargs is None:  # of `--option=--`, whose dashes older Pythons drop
            parser.error(f"{name} takes a value, and -- is none")
        if "" in (values if isinstance(values, list) else [values]):
            parser.error(f"{name} is empty: give it a value, or leave it away")
        given: set[str] = vars(namespace).setdefault("given", set())
        if option_string and self.dest in given:
            parser.error(f"{name} is there twice: leave one of them away")
        given.add(self.dest)
        setattr(namespace, self.dest, values)
