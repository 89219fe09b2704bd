"""From rows to what a reader sees: text table, chart, CSV and JSON. Knows rows, not kernels.

Rows are a tidy data frame: one line per counted thing, `frame.attrs["units"]` maps a column to its unit.
"""
