"""The page on the anatomy of a call."""

#: In which figures have the ISAs: arm64 first, which most of the arguments are about.
ORDER = ("arm64", "x86_64", "riscv64")
