"""Kernels that execute the pages: this environment's Python, no settings of the user, whole outputs, no ports, no limit of time."""

import functools
import os
import secrets
from pathlib import Path

from jupyter_core.paths import jupyter_runtime_dir
from nbclient import NotebookClient
from traitlets.config import Config

from tramplab_book.publish.quoted import PAGE

IPYTHON_CONFIG = """\
c = get_config()
c.HistoryManager.enabled = False          # without: a history database
"""
# Sent every 0.2 seconds, as usual, what a slow cell prints comes in pieces cut anywhere, and two builds differ.
STARTUP = """\
import sys
sys.stdout.flush_interval = sys.stderr.flush_interval = 3600   # seconds; the end of a cell sends it all
"""

# For the start of a kernel and the last of a cell's output nbclient knows no "as long as it takes". One that dies is noticed.
FOREVER = 10**9  # seconds


def setup(app):
    """Register with Sphinx how the kernels of pages are started and ended."""
    use_this_environment()
    use_own_ipython_settings(Path(app.doctreedir).parent / "ipython")
    set_client_options()
    app.connect("source-read", name_page)


def use_this_environment():
    """Have pages use the `python3` kernel beside this Sphinx: a user's own could be any Python."""
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    os.environ.pop("JUPYTER_PATH", None)
    # ipykernel starts with frozen modules and the debugger warns about that on stderr; nothing is debugged here.
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"


def use_own_ipython_settings(folder: Path):
    """Have pages use the book's own IPython folder: start-up files in ~/.ipython would run in every page."""
    profile = folder / "profile_default"
    (profile / "startup").mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text(IPYTHON_CONFIG, "utf-8")
    (profile / "startup" / "whole.py").write_text(STARTUP, "utf-8")
    os.environ["IPYTHONDIR"] = str(folder)


def set_client_options():
    """Talk to kernels through sockets in a folder: of two that start at once, each may choose a TCP port that is then the
    other's. And end them by signal: ipykernel 7.4 takes 3.4 s in about half of its orderly ends (measured)."""
    original = NotebookClient.__init__

    @functools.wraps(original)
    def init(self, *args, **kwargs):
        sockets = {"transport": "ipc", "connection_file": f"{jupyter_runtime_dir()}/{secrets.token_hex(4)}.json"}
        times = {"startup_timeout": FOREVER, "iopub_timeout": FOREVER, "shutdown_kernel": "immediate"}
        original(self, *args, **{**times, "config": Config(KernelManager=sockets), **kwargs})

    NotebookClient.__init__ = init


def name_page(app, docname, source):
    """Name the page that is read to the kernel that executes it."""
    os.environ[PAGE] = app.env.doc2path(docname)
