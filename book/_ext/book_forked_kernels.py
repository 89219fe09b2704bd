"""Kernels are forked from the process that reads their page, which has imported the studies and what draws their charts.

Kernels that are started import these once for each page, and the build takes half as much processor time again (measured: 186 s
instead of 128 s). The fork server of multiprocessing does not do: only the process that started it may ask it for a process, and
Sphinx forks one for each page. Where processes are not forked (macOS: its own libraries do not stand it), kernels start as usual.
"""

import asyncio
import contextvars
import gc
import importlib
import multiprocessing
import os
import signal
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

from tramplab_book import studies

MODULE = "ipykernel_launcher"
NAME = "forked"  # of the provisioner


def setup(app):
    """Register with Sphinx what forks kernels."""
    if sys.platform == "linux":
        app.connect("env-before-read-docs", prepare)


def prepare(app, env, docnames):
    """Import what takes pages longest, the code that draws charts and all studies, and have kernels forked."""
    if any("from tramplab" in Path(env.doc2path(name)).read_text("utf-8") for name in docnames):
        for name in ("ipykernel.kernelapp", "tramplab_book.publish.figures.chart"):
            importlib.import_module(name)
        studies.every()
    gc.freeze()  # a collection writes to memory, which is then copied for each kernel
    factory = KernelProvisionerFactory.instance()
    factory.provisioners[NAME] = EntryPoint(NAME, f"{__name__}:Forked", factory.GROUP_NAME)
    factory.default_provisioner_name = NAME


class Kernel(multiprocessing.get_context("fork").Process):
    """A forked kernel, with the methods of subprocess.Popen that jupyter_client calls."""

    stdin = stdout = stderr = None

    def __init__(self, arguments: list[str], environment: dict[str, str], folder: str):
        super().__init__()
        self.arguments, self.environment, self.folder = arguments, environment, folder

    def run(self):
        """Be the kernel that `python -m ipykernel_launcher` starts; first undo what that would not inherit from this process."""
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
        """The kernel's exit status; None while it runs."""
        return self.exitcode

    def wait(self) -> int:
        """Wait for the kernel's end; returns its exit status."""
        self.join()
        return self.exitcode

    def send_signal(self, number: int):
        """Send the kernel a signal."""
        os.kill(self.pid, number)


class Forked(LocalProvisioner):
    """Forks a kernel where jupyter_client would start a command."""

    async def launch_kernel(self, cmd: list[str], **kwargs):
        """Fork a kernel of this environment; jupyter_client's own method starts all others."""
        if cmd[1:3] != ["-m", MODULE]:
            return await super().launch_kernel(cmd, **kwargs)
        self.cwd = str(kwargs.get("cwd") or Path.cwd())
        self.process = Kernel(cmd[3:], kwargs["env"], self.cwd)
        self.process.start()
        self.pid = self.pgid = self.process.pid
        return self.connection_info
