"""The results that data/ keeps of Debian's kernels: read, and made again."""
