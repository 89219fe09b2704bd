"""Recursion guards: what they cost, which calls they let in, and what they read of the CPU and of the task."""
