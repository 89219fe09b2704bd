"""BPF trampolines as the JIT of Debian's kernels makes them, each kernel booted under QEMU, beside the lab's."""
