"""Ways to a pt_regs from a light structure: what each costs, and which consumers it serves."""
