"""A kernel image booted under QEMU with one process of our own, and the lines that this writes to the console."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..base.errors import TramplabError
from ..base.paths import temporary
from ..build import toolchain
from ..isa import Isa

INIT = Path(__file__).resolve().parent / "init"
SECONDS = 600.0  # after which a boot is given up
_BASE = 0x10000000  # where the process is linked, which every ISA's user space has
#: Addresses as linked, no thunks, which is what the emulated boot has, and system calls that take the same way each time.
_COMMAND_LINE = "nokaslr mitigations=off randomize_kstack_offset=off panic=-1 quiet"
#: One CPU whose virtual time is its instructions, a nanosecond each; idle, it goes on to the next timer at once. The day and what
#: is random are the same each time.
_DETERMINED = "-smp 1 -icount shift=0,sleep=off -rtc base=2026-01-01,clock=vm -seed 1"
#: Two CPUs, of which the stub can keep one and let the other go on; the machine waits at its stub.
_HELD = "-smp 2 -accel tcg,thread=multi -S"
_ALWAYS = "-m 1024 -nographic -no-reboot -nodefaults -serial stdio"
_SAID, _REASONS = 5, 2  # lines of the console that are quoted where a boot fails: the last ones, and first those with a reason
#: What a kernel calls the reason of its end; the registers and the trace that follow are longer than what is quoted.
_REASON = re.compile(r"Kernel panic|Oops|BUG:|Unable to handle|CFI failure")
_PIPE = 1 << 20  # bytes that a kernel may write while the machine is at its stub, and nobody reads
_LONGEST = 1 << 16  # bytes of a line; those of ours have a few thousand
_QUOTED = 200  # characters of a line that is quoted
#: The advice where the kernel's own messages are in the way.
FEWER = "boot it with fewer messages, --append loglevel=0"
#: What is done at a connection to a machine's stub.
AtStub = Callable[[socket.socket], None] | None
_FILE, _FOLDER, _DEVICE = 0o100755, 0o040755, 0o020600


@dataclass(frozen=True)
class _Machine:
    """The machine that kernels of an ISA are booted on.

    program: QEMU's program for the ISA.
    options: its machine and CPU.
    console: the kernel's name of the console.
    nanoseconds: the unit of its counter; each is an instruction.
    """

    program: str
    options: str
    console: str
    nanoseconds: int


#: ISA -> what it is booted on. QEMU's virt machines of before version 9 have these counters.
MACHINES = {
    "x86_64": _Machine("qemu-system-x86_64", "-machine q35 -cpu max", "ttyS0", 1),
    "arm64": _Machine("qemu-system-aarch64", "-machine virt -cpu cortex-a57", "ttyAMA0", 16),
    "riscv64": _Machine("qemu-system-riscv64", "-machine virt -bios default", "ttyS0", 100),
}


def archive(files: Mapping[str, bytes]) -> bytes:
    """An initramfs with these files, /proc and /dev/console: a cpio of the kind that the kernel unpacks
    (Documentation/driver-api/early-userspace/buffer-format.rst).

    >>> archive({"init": b"x"})[:6], len(archive({})) % 512
    (b'070701', 0)
    """
    entries = [("proc", _FOLDER, b"", (0, 0)), ("dev", _FOLDER, b"", (0, 0)), ("dev/console", _DEVICE, b"", (5, 1))]
    entries += [(name, _FILE, data, (0, 0)) for name, data in files.items()]
    content = b""
    for number, (name, mode, data, device) in enumerate([*entries, ("TRAILER!!!", 0, b"", (0, 0))], 1):
        # inode, mode, owner, group, links, time, size, device of the file system, device, bytes of the name, checksum
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % f for f in fields) + name.encode() + b"\0"
        content += head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)
    return content + bytes(-len(content) % 512)


def version(isa: Isa) -> str:
    """QEMU's own words on its version; raises TramplabError where it is not there."""
    done = subprocess.run([_there(isa), "--version"], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)
    return done.stdout.partition("\n")[0]


def command_line(isa: Isa, append: str = "") -> str:
    """The kernel's command line; append: further words."""
    return " ".join((f"console={MACHINES[isa.name].console}", _COMMAND_LINE, *append.split()))


def options(isa: Isa, held: bool = False) -> str:
    """QEMU's options, without those that name files. held: those for a machine that is held at its stub."""
    return f"{MACHINES[isa.name].options} {_HELD if held else _DETERMINED} {_ALWAYS}"


def lines(
    isa: Isa, name: str, image: bytes, files: Mapping[str, bytes], append: str = "", seconds: float = SECONDS, first: AtStub = None
) -> Generator[str]:
    """Boot an image, of this name in errors, with these files beside the process, of which "plan" is what it does (see
    init/init.c); the lines that it writes, as they come. QEMU ends with the generator, and with this process. first: what is done
    first, at the GDB stub of a machine with two CPUs, with a connection to it; where that breaks, the boot has not come to its end.
    Raises TramplabError where QEMU is not there, where the boot has not come to its end after these seconds or ends before,
    and for a line without an end; the lines up to then have been given."""
    program = _there(isa)
    init = toolchain.program(isa.in_user_space, INIT, _BASE)
    with temporary("tramplab-boot-") as folder:
        _put(folder, image, {"init": init.read_bytes(), **files})
        console, (stub, theirs) = _Console(name), socket.socketpair()
        command = _command(isa, folder, append, theirs.fileno() if first else None)
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "pass_fds": [theirs.fileno()]}
        with stub, theirs, (folder / "stderr").open("w+b") as complaints:
            with subprocess.Popen(command, stderr=complaints, pipesize=_PIPE, **pipes) as running:
                theirs.close()
                timer = threading.Timer(seconds, running.kill)
                timer.start()
                try:
                    assert running.stdout is not None
                    if first:
                        with contextlib.suppress(ConnectionError):
                            first(stub)
                    yield from console.lines(running.stdout)
                    late = not timer.is_alive()
                finally:
                    timer.cancel()
                    running.kill()
            complaints.seek(0)
            complained = [line for line in complaints.read(_LONGEST).decode("latin-1").splitlines() if line][:1]
        if not console.ended:
            how = f"has not come to its end in {seconds:.0f} seconds" if late else "does not boot to its end"
            said = " / ".join(map(quotable, dict.fromkeys((*console.reasons, *console.said, *complained)))) or "nothing"
            raise TramplabError(f"{name} {how} under {program}; the last that it says is: {said}")


def _put(folder: Path, image: bytes, files: Mapping[str, bytes]) -> None:
    (folder / "image").write_bytes(image)
    (folder / "initramfs").write_bytes(archive(files))


def _command(isa: Isa, folder: Path, append: str, stub: int | None) -> list[str]:
    """QEMU's command line for the files in a folder. stub: the number of the open file that its stub is to be at."""
    words = [*_ending_with_us(), MACHINES[isa.name].program, *options(isa, stub is not None).split()]
    words += [] if stub is None else ["-chardev", f"socket,id=stub,fd={stub}", "-gdb", "chardev:stub"]
    return [*words, "-kernel", str(folder / "image"), "-initrd", str(folder / "initramfs"), "-append", command_line(isa, append)]


class _Console:
    """What a kernel has written: the last lines, the first ones with a reason, and whether our process came to its end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.said, self.reasons = deque[str](maxlen=_SAID), list[str]()
        self.ended = False

    def lines(self, stream: IO[bytes]) -> Iterator[str]:
        """The lines of our process, between its first and its last."""
        began = False
        while raw := stream.readline(_LONGEST + 1):
            if len(raw) > _LONGEST:
                raise TramplabError(f"{self.name} writes a line of more than {_LONGEST} bytes to its console: {FEWER}.")
            line = raw.decode("latin-1").strip()
            self.said += [line] if line else []
            if (reason := _REASON.search(line)) and len(self.reasons) < _REASONS:
                self.reasons.append(line[reason.start() :])
            if began and line == "end":
                self.ended = True
                return
            if began:
                yield line
            began = began or line == "begin"


def quotable(line: str) -> str:
    """A line of a console as an error quotes it: not all of a long one, and no control characters."""
    return "".join(c if c.isprintable() else "?" for c in line[:_QUOTED])


def _ending_with_us() -> list[str]:
    """The words before a command that have the kernel end it when this process is gone, even by SIGKILL; none without
    util-linux."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def _there(isa: Isa) -> str:
    program = MACHINES[isa.name].program
    if shutil.which(program) is None:
        raise TramplabError(f"{program} is not there, so no kernel of {isa.name} is booted: install QEMU (Debian: qemu-system).")
    return program
