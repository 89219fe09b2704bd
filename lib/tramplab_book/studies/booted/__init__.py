"""Booted kernels: what a probe costs there, and the findings tried there."""
