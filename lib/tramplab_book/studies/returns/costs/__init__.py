"""What it costs to see a function return: one probe, many, and the registers that are saved."""
