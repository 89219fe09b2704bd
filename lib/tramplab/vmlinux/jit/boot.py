"""A kernel image booted under QEMU with one process of our own, and the lines that this writes to the console."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ...base.errors import TramplabError
from ...base.paths import temporary
from ...build import toolchain
from ...isa import Isa

INIT = Path(__file__).resolve().parent / "init"
_BASE = 0x10000000  # where the process is linked, which every ISA's user space has
#: ISA -> what is run, with the machine, and its console. Links at their addresses, and without thunks, as the emulated boot has it.
_MACHINES = {
    "x86_64": ("qemu-system-x86_64", "-machine q35 -cpu max", "ttyS0"),
    "arm64": ("qemu-system-aarch64", "-machine virt -cpu cortex-a57", "ttyAMA0"),
    "riscv64": ("qemu-system-riscv64", "-machine virt -bios default", "ttyS0"),
}
_COMMAND_LINE = "nokaslr mitigations=off panic=-1 quiet"
_SECONDS = 600
_FILE, _FOLDER, _DEVICE = 0o100755, 0o040755, 0o020600


def archive(files: dict[str, bytes]) -> bytes:
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


def lines(isa: Isa, image: Path, plan: str) -> list[str]:
    """Boot an image and carry out a plan (see init/init.c); the lines that come of it. Raises TramplabError where QEMU is not
    there, and where the boot does not come to its end."""
    program, machine, console = _MACHINES[isa.name]
    if shutil.which(program) is None:
        raise TramplabError(f"{program} is not there, so no kernel of {isa.name} is booted: install QEMU (Debian: qemu-system).")
    init = toolchain.program(isa.in_user_space, INIT, _BASE)
    with temporary("tramplab-jit-") as folder:
        (folder / "initramfs").write_bytes(archive({"init": init.read_bytes(), "plan": plan.encode()}))
        command = [
            program,
            *machine.split(),
            *"-m 1024 -nographic -no-reboot -nodefaults -serial stdio -kernel".split(),
            str(image),
        ]
        command += ["-initrd", str(folder / "initramfs"), "-append", f"console={console} {_COMMAND_LINE}"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise TramplabError(
                f"{image} has not come to its end in {_SECONDS} seconds under {program}: give it more time."
            ) from None
    printed = [line.strip() for line in done.stdout.decode("latin-1").splitlines()]
    if "end" not in printed:
        last = next((line for line in reversed([*done.stderr.decode("latin-1").splitlines(), *printed]) if line), "nothing")
        raise TramplabError(f"{image} does not boot to its end under {program}; the last that it says is: {last}")
    return printed
