"""What studies of several arguments have in common: rows by release, strips, walks, marks and verdicts."""
