"""Struct layouts and prototypes of an image, from BTF or from DWARF."""
