"""What was claimed in the threads, what the runs say of it, and both as a reader sees them."""
