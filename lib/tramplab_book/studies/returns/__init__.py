"""Argument 5: can kretprobe go, what replaces it, and at what price?"""
