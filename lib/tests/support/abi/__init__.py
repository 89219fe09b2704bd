"""The calling convention as checks, and the calls that they look at."""
