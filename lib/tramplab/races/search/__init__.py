"""The states that threads and patcher can be in: one thread as an automaton, and any number of them by compiled code."""
