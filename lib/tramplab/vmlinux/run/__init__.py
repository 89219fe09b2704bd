"""A kernel image in the machine: its booted state, what is registered in its own structs, and calls of its functions."""
