"""What unwinders see of a hooked call."""
