"""The kernel in a file: which container it is in, how it is packed, and whether it is whole."""
