"""Exact counts of what a machine executes, by compiled hooks or by Python's."""
