"""BPF on a kprobe, beside the other ways to a program."""
