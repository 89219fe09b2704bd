"""Trampoline variants: what each saves, who needs it, and how ftrace picks and switches them."""
