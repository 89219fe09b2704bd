"""Findings: what the runs show, in an author's words, each with the comparisons that make it true."""
