"""Kernel images booted under QEMU with one process of our own: what a probe costs in all that is around it, and whether a finding
holds.

QEMU counts virtual time in instructions (`-icount shift=0`), so a clock that the process can read counts them, too; on one CPU and
with fixed addresses two boots of an image give the same counts.
"""
