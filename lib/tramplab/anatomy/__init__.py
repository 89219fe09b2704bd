"""The anatomy of a call: which functions it goes through, how deep, and how many instructions each executes."""

from __future__ import annotations

from .graph import compared_text, graph_text
from .tree import Box, boxes

__all__ = ["Box", "boxes", "compared_text", "graph_text"]
