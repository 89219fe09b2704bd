"""Lab kernels with one broken line each, and the check that notices."""
