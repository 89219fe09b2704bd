"""Rows as a reader sees them: question, answer, chart, table and files of a figure."""
