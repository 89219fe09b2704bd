"""Trampolines that are made for one function: what they save, and what they save in instructions."""
