"""Stack traces that are taken in a hooked call."""
