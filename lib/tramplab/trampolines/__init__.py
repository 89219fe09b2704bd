"""The makers of trampolines, a folder each: what an ops, a direct call, BPF programs or an experiment has made for it."""
