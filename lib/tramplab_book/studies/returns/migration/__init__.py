"""Users of kretprobes on what is to replace them, and what is left of kprobes without kretprobes."""
