"""Who makes the book, of when this edition is, and where a fault is reported."""

from __future__ import annotations

from ...publish.cite import edition
from ...publish.phrases import listed


def made() -> str:
    """In a sentence or two; how to report a fault is left out while CITATION.cff has no address."""
    now = edition.current()
    report = f" Report a fault to {now.contact}." if now.contact else ""
    return f"Made by {listed(now.authors)}. Edition {now.version} of {now.date}.{report}"
