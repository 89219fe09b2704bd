"""From the sources of a guest to its image, by the compiler wheel: what is compiled, what is assembled, what is read of it."""
