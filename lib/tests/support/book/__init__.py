"""Small books, and what tests look for in the built one."""
