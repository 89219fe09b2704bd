"""What a recorded call means to a core: its return stack, its pipeline. Reads runs, never changes a kernel."""
