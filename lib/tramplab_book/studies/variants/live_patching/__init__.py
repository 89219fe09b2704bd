"""Consumers that change where a call goes on, and what they need of a trampoline."""
