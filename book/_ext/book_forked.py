"""Kernels of pages are forked from a process that has imported what several pages import; see book_forks.py for that process.

A kernel takes a second and a half to start and to import what a chapter's page wants, which is more than most pages compute. Where
processes are not forked (macOS: its own libraries do not stand it), kernels start as usual.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from importlib.metadata import EntryPoint
from pathlib import Path

import nbformat
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

SEVERAL = 3  # pages that import a module, for which it is imported once
# what these modules import when they draw, quote, or look for the study that has a figure, and read when they cite
LATER = (
    "tramplab.publish.figures.chart",
    "myst_nb.ext.glue",
    "tramplab.studies:every",
    "tramplab.publish.claims.claims:read",
    "tramplab.publish.cite.edition:current",
)
MODULE = "ipykernel_launcher"
_NAME = "forked"
_asking: socket.socket | None = None


def setup(app):
    """Register with Sphinx the start and the end of the process that kernels are forked from."""
    if sys.platform == "linux":
        app.connect("env-before-read-docs", start)


def start(app, env, docnames):
    """Start it before the pages are read, perhaps in processes of their own, unless none has cells."""
    global _asking
    pages = [text for name in docnames if "{code-cell}" in (text := Path(env.doc2path(name)).read_text("utf-8"))]
    if not pages:
        return
    nbformat.validate(nbformat.v4.new_notebook())  # what checks notebooks is compiled then, here for all processes that read pages
    _asking, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, str(Path(__file__).with_name("book_forks.py")), str(end.fileno()), *common(pages)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[end.fileno()])
    end.close()
    factory = KernelProvisionerFactory.instance()
    factory.provisioners[_NAME] = EntryPoint(_NAME, f"{__name__}:Forked", factory.GROUP_NAME)
    factory.default_provisioner_name = _NAME
    app.connect("build-finished", lambda *_: (_asking.close(), process.wait()))


def common(pages: list[str]) -> list[str]:
    """The modules that several pages import, in the order of their names.

    >>> common(["import math\\nfrom os import path", "from os import sep", "from os.path import join"])
    []
    >>> common(["from os import path\\nfrom os import sep", "from os import sep", "import os\\n"])
    ['os']
    """
    found = Counter(name for text in pages for name in set(re.findall(r"^(?:from|import) ([\w.]+)", text, re.M)))
    several = sorted(name for name, times in found.items() if times >= SEVERAL)
    return [*several, *LATER] if "tramplab" in {name.partition(".")[0] for name in several} else several


class Kernel:
    """A forked kernel, with what jupyter_client wants of a subprocess.Popen."""

    stdin = stdout = stderr = None

    def __init__(self, arguments: list[str], environment: dict[str, str], folder: str):
        wanted = {"arguments": arguments, "environment": environment, "folder": folder}
        self._stream, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(_asking, [json.dumps(wanted).encode()], [theirs.fileno()])
        self._said = b""
        while b"\n" not in self._said:
            if not (more := self._stream.recv(100)):
                raise BrokenPipeError("the process that kernels are forked from is gone")
            self._said += more
        self._stream.setblocking(False)
        self.pid = int(self._said.split()[0])
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """How it has ended, as a return code; None while it runs. Where the process is gone that it was forked from, so is it."""
        if self.returncode is None:
            with suppress(BlockingIOError):
                while more := self._stream.recv(100):
                    self._said += more
                self.returncode = int([*self._said.split(), -signal.SIGKILL][1])
        return self.returncode

    def wait(self) -> int:
        """Wait for its end."""
        while self.poll() is None:
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, number: int):
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self):
        """End it."""
        self.send_signal(signal.SIGKILL)


class Forked(LocalProvisioner):
    """Has kernels forked that a command would start."""

    async def launch_kernel(self, cmd: list[str], **kwargs):
        """As jupyter_client's own, which starts what is no kernel of this environment, and any kernel where none can be forked."""
        if cmd[1:3] == ["-m", MODULE]:
            with suppress(OSError):
                self.cwd = str(kwargs.get("cwd") or Path.cwd())
                self.process = Kernel(cmd[3:], kwargs["env"], self.cwd)
                self.pid = self.pgid = self.process.pid
                return self.connection_info
        return await super().launch_kernel(cmd, **kwargs)
