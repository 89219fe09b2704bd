"""How the counts are made: what the method page runs."""
