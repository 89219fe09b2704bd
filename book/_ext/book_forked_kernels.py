"""Kernels are forked from the process that reads their page, which has imported what several pages import.

Started by themselves they import it once for each page, and the build takes half as much processor time again (measured: 186 s
instead of 128 s). The fork server of multiprocessing does not do: only the process that started it may ask it for a process, and
Sphinx forks one for each page. Where processes are not forked (macOS: its own libraries do not stand it), kernels start as usual.
"""

import asyncio
import contextlib
import contextvars
import importlib
import multiprocessing
import os
import re
import signal
import sys
from collections import Counter
from importlib.metadata import EntryPoint
from pathlib import Path

from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

from tramplab.base.starting import few_collections

SEVERAL = 3  # pages that import a module, for which it is imported once
KERNEL = ("ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.debugger")
# what pages import when they draw, quote, or look for the study that has a figure, and read when they cite
LATER = (
    "tramplab.publish.figures.chart",
    "myst_nb.ext.glue",
    "tramplab.studies:every",
    "tramplab.publish.claims.claims:read",
    "tramplab.publish.cite.edition:current",
)
MODULE = "ipykernel_launcher"
NAME = "forked"  # of the provisioner


def setup(app):
    """Register with Sphinx what forks kernels."""
    if sys.platform == "linux":
        app.connect("env-before-read-docs", prepare)


def prepare(app, env, docnames):
    """Import what pages have in common, and have kernels forked."""
    pages = [text for name in docnames if "{code-cell}" in (text := Path(env.doc2path(name)).read_text("utf-8"))]
    if not pages:
        return
    for name in (*KERNEL, *common(pages)):
        module, _, function = name.partition(":")
        with contextlib.suppress(Exception):  # the page that imports it fails with the error
            found = importlib.import_module(module)
            if function:
                getattr(found, function)()
    few_collections()  # a collection writes to memory, which is then copied for each kernel
    factory = KernelProvisionerFactory.instance()
    factory.provisioners[NAME] = EntryPoint(NAME, f"{__name__}:Forked", factory.GROUP_NAME)
    factory.default_provisioner_name = NAME


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


class Kernel(multiprocessing.get_context("fork").Process):
    """A forked kernel, with what jupyter_client calls of a subprocess.Popen."""

    stdin = stdout = stderr = None

    def __init__(self, arguments: list[str], environment: dict[str, str], folder: str):
        super().__init__()
        self.arguments, self.environment, self.folder = arguments, environment, folder

    def run(self):
        """Be the kernel that `python -m ipykernel_launcher` starts; what that would not have of this process is put back."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        sys.path.remove(str(Path(__file__).parent))
        sys.argv = [MODULE, *self.arguments, f"--IPKernelApp.parent_handle={os.getppid()}"]
        asyncio.set_event_loop(asyncio.new_event_loop())  # this process was forked while the other's was running
        from ipykernel import kernelapp

        contextvars.Context().run(kernelapp.launch_new_instance)

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        return self.exitcode

    def wait(self) -> int:
        """Wait for its end; returns its exit status."""
        self.join()
        return self.exitcode

    def send_signal(self, number: int):
        """Send it a signal."""
        os.kill(self.pid, number)


class Forked(LocalProvisioner):
    """Forks a kernel where jupyter_client would start a command."""

    async def launch_kernel(self, cmd: list[str], **kwargs):
        """As jupyter_client's own, which starts whatever is no kernel of this environment."""
        if cmd[1:3] != ["-m", MODULE]:
            return await super().launch_kernel(cmd, **kwargs)
        self.cwd = str(kwargs.get("cwd") or Path.cwd())
        self.process = Kernel(cmd[3:], kwargs["env"], self.cwd)
        self.process.start()
        self.pid = self.pgid = self.process.pid
        return self.connection_info
