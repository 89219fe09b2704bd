"""How many returns can be seen at once, and what it takes in memory to see every one."""
