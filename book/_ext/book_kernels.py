"""Kernels that execute the pages: this environment's Python, no settings of the user, whole outputs, no ports, no limit of
time, no wait at the end."""

import functools
import os
import secrets
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import book_unfinished
from nbclient import NotebookClient
from traitlets.config import Config

IPYTHON_CONFIG = """\
c = get_config()
c.HistoryManager.enabled = False          # without: a history database
"""
# Without, the kernels of a build that is killed say that they end. An argument, because one that is just starting then may find the
# folder with its settings gone.
ARGUMENTS = ["--IPKernelApp.log_level=ERROR"]
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
    start_and_end_kernels(folder_for_sockets(app))
    leave_signals_alone()


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


def folder_for_sockets(app) -> str:
    """One of the system's, as a socket's path may have 104 characters. A link among what is built names it, so that the next
    build can remove what a killed one left."""
    sockets = tempfile.TemporaryDirectory(prefix="tramplab-")
    app.connect("build-finished", lambda *_: sockets.cleanup())
    link = Path(app.outdir).parent / book_unfinished.SOCKETS
    link.unlink(missing_ok=True)
    link.symlink_to(sockets.name)
    return sockets.name


def start_and_end_kernels(folder: str):
    """Talk to kernels through sockets in a folder: of two that start at once, each may choose a TCP port that is then the
    other's. And end them by signal: ipykernel 7.4 takes 3.4 s in about half of its orderly ends (measured)."""
    original = NotebookClient.__init__

    @functools.wraps(original)
    def init(self, *args, **kwargs):
        own = {"transport": "ipc", "connection_file": f"{folder}/{secrets.token_hex(4)}.json"}
        times = {"startup_timeout": FOREVER, "iopub_timeout": FOREVER, "shutdown_kernel": "immediate"}
        original(self, *args, **{**times, "extra_arguments": [*ARGUMENTS], "config": Config(KernelManager=own), **kwargs})

    NotebookClient.__init__ = init


def leave_signals_alone():
    """nbclient ends the kernel at a signal and goes on: the page would fail. Here a signal ends the process that executes the
    page, and the kernel sees within a second that it is gone."""

    @asynccontextmanager
    async def setup_kernel(self, **kwargs):
        self.create_kernel_manager()
        await self.async_start_new_kernel(**kwargs)
        await self.async_start_new_kernel_client()
        try:
            yield
        finally:
            await self._async_cleanup_kernel()

    NotebookClient.async_setup_kernel = setup_kernel
