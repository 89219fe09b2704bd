"""Debian's kernel packages: which images the book's counts are of, and how they are fetched."""
