"""The process that kernels are forked from: it has imported what pages have in common, which takes longer than most cells.

    python book_forks.py SOCKET MODULE[:FUNCTION]...

SOCKET is the number of an open one. A function is called once, for what it imports. Who wants a kernel sends a line of JSON
through SOCKET, with the kernel's arguments, environment and folder, and one end of a stream. At the other end it reads two lines:
the number of the kernel's process and, when that has ended, how. A kernel ends when that other end is closed; this process, and all
its kernels, when nobody has the other end of SOCKET.

A kernel is what `python -m ipykernel_launcher` starts, but for modules that are there before they are imported.
"""

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
import warnings
from contextlib import suppress

from tramplab.base.starting import few_collections

FAILED = 1  # exit status
LONGEST = 1 << 20  # bytes of a request; Linux sends no more than a fifth of it at once


def serve(requests: socket.socket):
    """Fork kernels and watch over them until nobody can ask for one any more."""
    asked, told = socket.socketpair()  # a byte when a kernel has ended
    told.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    streams: dict[int, socket.socket] = {}
    me = os.getpid()
    with selectors.DefaultSelector() as events:
        events.register(requests, selectors.EVENT_READ)
        events.register(asked, selectors.EVENT_READ)
        while True:
            for key, _ in events.select():
                if key.fileobj is asked:
                    asked.recv(1 << 10)
                    for stream in ended(streams):
                        events.unregister(stream)
                        stream.close()
                elif key.data in streams:  # nothing is ever sent: its other end is closed
                    kill(key.data)
                    time.sleep(0.001)  # rather than to ask again at once whether it has ended
                elif key.fileobj is requests:
                    message, numbers, *_ = socket.recv_fds(requests, LONGEST, 1)
                    if not message:
                        for pid in streams:
                            kill(pid)
                        return
                    stream = socket.socket(fileno=numbers[0])
                    if not (pid := forked()):
                        run(json.loads(message), me, stream, [events, requests, asked, told, *streams.values()])
                    streams[pid] = stream
                    events.register(stream, selectors.EVENT_READ, pid)


def forked() -> int:
    """Fork. Python 3.12 warns where there are threads: these are numpy's, which takes care of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def ended(streams: dict[int, socket.socket]):
    """Tell how each kernel has ended that has, and give its stream."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            stream = streams.pop(found[0])
            with suppress(OSError):
                stream.sendall(b"%d\n" % os.waitstatus_to_exitcode(found[1]))
            yield stream


def kill(pid: int):
    """End a kernel and what it has started; one that was forked just now has no group of its own yet."""
    for send, whom in ((os.killpg, pid), (os.kill, pid)):
        with suppress(ProcessLookupError):
            send(whom, signal.SIGKILL)


def run(wanted: dict, parent: int, stream: socket.socket, others: list):
    """Be the kernel that is wanted, with nothing of its parent's open, and until that is gone; does not return."""
    status = FAILED
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        stream.sendall(b"%d\n" % os.getpid())
        for other in (stream, *others):
            other.close()
        os.environ.clear()
        os.environ.update(wanted["environment"])
        os.chdir(wanted["folder"])
        sys.argv = ["ipykernel_launcher", *wanted["arguments"], f"--IPKernelApp.parent_handle={parent}"]

        from ipykernel import kernelapp

        kernelapp.launch_new_instance()
        status = 0
    except SystemExit as e:
        status = e.code if isinstance(e.code, int) else FAILED
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def main(number: str, *modules: str):
    """Import, then serve. A module that cannot be imported is for the page that wants it to speak of."""
    if not sys.flags.safe_path:
        del sys.path[0]  # this script's folder, in which kernels do not look
    for name in ("ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.debugger", *modules):
        module, _, function = name.partition(":")
        with suppress(Exception):
            there = importlib.import_module(module)
            if function:
                getattr(there, function)()
    gc.collect()
    few_collections()  # or each kernel copies the pages that the collector writes to
    serve(socket.socket(fileno=int(number)))


if __name__ == "__main__":
    main(*sys.argv[1:])
