"""What setuptools runs for the wheel of the book; see lib/setup.py."""

import runpy

runpy.run_path("../setup.py")
