"""Machines that run a program of another ISA, and results of machines that were never timed."""
