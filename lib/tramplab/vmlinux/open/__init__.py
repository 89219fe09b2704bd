"""A kernel image from its file: unpacked, parsed and relocated, with its symbols, types and features."""
