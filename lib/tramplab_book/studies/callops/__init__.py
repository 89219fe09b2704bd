"""Argument 3: CALL_OPS on RISC-V."""
