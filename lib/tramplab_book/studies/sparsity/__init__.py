"""Argument 4: sparse register structures."""
