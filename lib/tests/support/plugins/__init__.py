"""Plugins of pytest, named in conftest.py."""
