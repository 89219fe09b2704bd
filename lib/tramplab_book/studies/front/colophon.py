"""Who makes the book, of when this edition is and which kernels it is about, its license, and where a fault is reported."""

from __future__ import annotations

from tramplab.ftrace import releases

from ...publish.cite import edition
from ...publish.phrases import listed


def made() -> str:
    """How the book was made, in a few sentences; how to report a fault is left out while CITATION.cff has no address."""
    now = edition.current()
    report = f" Report a fault to {now.contact}." if now.contact else ""
    about = f"Edition {now.version} of {now.date}, license {now.license}; its newest kernel is Linux {releases.LATEST}."
    return f"Made by {listed(now.authors)}. {about}{report}"
