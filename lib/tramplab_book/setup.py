"""See lib/setup.py."""

import runpy

runpy.run_path("../setup.py")
