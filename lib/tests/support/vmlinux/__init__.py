"""Small kernels and the files that they lie in, made by hand."""
