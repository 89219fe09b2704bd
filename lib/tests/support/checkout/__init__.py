"""The tests that a change needs, and the words of the checkout."""
