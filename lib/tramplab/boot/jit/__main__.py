"""`python -m tramplab.boot.jit`: read the BPF trampolines that JITs make again, into data/bpf-trampolines.json."""

import sys

from ...base.starting import start
from .saved import main

if __name__ == "__main__":
    sys.exit(start(lambda: main))
