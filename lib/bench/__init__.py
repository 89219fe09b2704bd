"""How fast the lab is, as ratios: `make bench`."""
