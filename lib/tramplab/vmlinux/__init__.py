"""Real kernel images: opened, brought to their booted state, and their own code called and counted."""
