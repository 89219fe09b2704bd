"""Kernels that execute the pages: this environment's Python, no settings of the user, whole outputs, no ports, no wait at the
end."""

import functools
import os
import secrets
import tempfile
from pathlib import Path

from nbclient import NotebookClient
from traitlets.config import Config

IPYTHON_CONFIG = """\
c = get_config()
c.HistoryManager.enabled = False          # without: a history database
"""
# Sent every 0.2 seconds, as usual, what a slow cell prints comes in pieces cut anywhere, and two builds differ.
STARTUP = """\
import sys
sys.stdout.flush_interval = sys.stderr.flush_interval = 3600   # seconds; the end of a cell sends it all
"""


def setup(app):
    use_this_environment()
    use_own_ipython_settings(Path(app.doctreedir).parent / "ipython")
    sockets = tempfile.TemporaryDirectory(prefix="tramplab-")  # the system's, as a socket's path may have 104 characters
    app.connect("build-finished", lambda *_: sockets.cleanup())
    start_and_end_kernels(sockets.name)


def use_this_environment():
    """A user's own `python3` kernel could be any Python; the one installed beside this Sphinx must win."""
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    os.environ.pop("JUPYTER_PATH", None)
    # ipykernel starts with frozen modules and the debugger warns about that on stderr; nothing is debugged here.
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"


def use_own_ipython_settings(folder: Path):
    """Start-up files in ~/.ipython would run in every page; the only one is the book's."""
    profile = folder / "profile_default"
    (profile / "startup").mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text(IPYTHON_CONFIG, "utf-8")
    (profile / "startup" / "whole.py").write_text(STARTUP, "utf-8")
    os.environ["IPYTHONDIR"] = str(folder)


def start_and_end_kernels(folder: str):
    """Talk to kernels through sockets in a folder: of two that start at once, each may choose a TCP port that is then the
    other's. And end them by signal: ipykernel 7.4 takes 3.4 s in about half of its orderly ends (measured)."""
    original = NotebookClient.__init__

    @functools.wraps(original)
    def init(self, *args, **kwargs):
        own = {"transport": "ipc", "connection_file": f"{folder}/{secrets.token_hex(4)}.json"}
        original(self, *args, **{"shutdown_kernel": "immediate", "config": Config(KernelManager=own), **kwargs})

    NotebookClient.__init__ = init
