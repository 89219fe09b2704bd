"""A call to read: step by step, in words and as a listing."""
