"""Consumers of a structure: what each concludes from it, run on every structure."""
