"""BPF through an fprobe, beside a direct call: what the page on direct calls runs."""
