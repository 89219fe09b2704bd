"""Models that know nothing of the package, and guests for them."""
