"""Ops that come and go: which trampoline a function gets, and what its record and its patch site hold."""
