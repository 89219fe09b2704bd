"""CPUs that contend for the pools of return hooks."""
