"""Real kernel images: opened, brought to their booted state, and their own code called and counted.
Many doors because boot takes an image at each of these stages, and studies take what is saved of each."""
