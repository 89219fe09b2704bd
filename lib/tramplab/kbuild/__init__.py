"""Kernels built from their source: a tree or an archive, patches on top, a small configuration, and what a patch changes."""
