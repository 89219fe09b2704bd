"""From rows to what a reader sees: text table, chart, CSV and JSON. Knows rows, not kernels.
Many doors because each form of it is a module, and the commands print all of them.

Rows are a tidy data frame: one line per counted thing, `frame.attrs["units"]` maps a column to its unit.
"""
