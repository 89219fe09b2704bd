"""A client of QEMU's GDB stub: as much of the remote protocol as it takes to let one CPU go on and keep another."""

from __future__ import annotations

import re
import socket

from ..base.errors import TramplabError

_PACKET = re.compile(rb"\$([^#]*)#[0-9a-f]{2}")
_INTERRUPT = b"\x03"


class Stub:
    """A machine that waits at its stub, at the other end of a connection. CPUs are counted from 0. Everything here raises
    ConnectionError when the machine is gone."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._received = connection, b""

    def ask(self, packet: str) -> str:
        """What the stub answers to a packet. Raises TramplabError where it is an error, or the stub does not know the packet."""
        self._send(packet)
        answer = self._answer()
        if not answer or answer.startswith("E"):
            raise TramplabError(f"QEMU's stub answers {answer!r} to {packet!r}: boot with QEMU 7.2 or a later one.")
        return answer

    def breakpoint(self, address: int) -> None:
        """Have each CPU that comes to an address stop the machine before the instruction."""
        self.ask(f"Z1,{address:x},1")

    def remove(self, address: int) -> None:
        """Take a breakpoint away."""
        self.ask(f"z1,{address:x},1")

    def run(self, *cpus: int, seconds: float | None = None) -> None:
        """Let these CPUs go on, and no other, until one of them comes to a breakpoint, or so many seconds have passed. A CPU at a
        breakpoint takes the interrupts that wait for it, and stops before the same instruction again."""
        self._send("vCont;" + ";".join(f"c:{cpu + 1:x}" for cpu in cpus))
        self._connection.settimeout(seconds)
        try:
            self._answer()
        except TimeoutError:
            self._connection.settimeout(None)
            self._connection.sendall(_INTERRUPT)  # a stub whose machine has just stopped takes no notice of it
            self._answer()
        self._connection.settimeout(None)

    def registers(self, cpu: int) -> list[int]:
        """A CPU's registers of 64 bits, in GDB's order."""
        self.ask(f"Hg{cpu + 1:x}")
        data = bytes.fromhex(self.ask("g"))
        return [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]

    def memory(self, address: int, size: int) -> bytes:
        """Memory as the CPU sees it whose registers were read last."""
        return bytes.fromhex(self.ask(f"m{address:x},{size:x}"))

    def leave(self) -> None:
        """Let the machine go on without a debugger."""
        self.ask("D")

    def _send(self, packet: str) -> None:
        data = packet.encode()
        self._connection.sendall(b"$%b#%02x" % (data, sum(data) % 256))

    def _answer(self) -> str:
        while not (found := _PACKET.search(self._received)):
            received = self._connection.recv(1 << 16)
            if not received:
                raise ConnectionResetError
            self._received += received
        self._received = self._received[found.end() :]
        self._connection.sendall(b"+")
        return found[1].decode("latin-1")
