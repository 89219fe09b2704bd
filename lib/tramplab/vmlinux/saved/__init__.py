"""The results of Debian's kernels that are saved in data/: read, and made again."""
