"""CPUs that take turns at instructions."""
