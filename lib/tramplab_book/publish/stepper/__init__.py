"""A recorded call to step through, in a page and as text."""
