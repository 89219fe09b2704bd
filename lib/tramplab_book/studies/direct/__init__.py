"""Argument 2: direct calls on arm64, or BPF through fprobe."""
