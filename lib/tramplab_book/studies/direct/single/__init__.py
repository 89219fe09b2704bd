"""One ops for all direct calls."""
