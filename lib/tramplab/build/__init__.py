"""Builds the image of a guest from its sources with the compiler wheel: compiling, assembling, and reading what was built."""
