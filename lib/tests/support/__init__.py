"""What the tests share, and the plugins of pytest that conftest.py names."""

from pathlib import Path

#: The checkout.
ROOT = Path(__file__).resolve().parents[3]
