"""Threads that execute a plan's code: what a CPU may fetch, what one instruction does, and whether that is allowed."""
