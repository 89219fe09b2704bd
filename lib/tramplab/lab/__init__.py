"""What a reader uses: a kernel with functions to call, hooks by name, and what a call showed."""
