"""The slow path: ops, records, patch plans and trampolines. Everything per call is guest code."""
