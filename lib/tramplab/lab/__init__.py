"""The interface for readers: a kernel with functions to call, hooks by name, and the result of a call."""
