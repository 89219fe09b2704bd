"""How close the lab is to real kernels."""
