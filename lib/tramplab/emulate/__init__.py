"""Runs an image and counts. Knows machines and code, and nothing of ftrace's bookkeeping."""
