"""All scenarios: listed, explored by several processes, and saved."""
