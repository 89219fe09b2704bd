"""How far a patch site reaches, and what a call beyond its reach costs."""
