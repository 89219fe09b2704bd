"""Exact counts of what a machine executes, by compiled hooks."""
