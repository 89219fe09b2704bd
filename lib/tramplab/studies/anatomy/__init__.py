"""The page on the anatomy of a call."""
