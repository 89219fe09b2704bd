"""Studies of the front page."""
