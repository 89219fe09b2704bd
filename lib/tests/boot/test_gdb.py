"""The client of a GDB stub: against a stub that answers from a list."""

from __future__ import annotations

import re
import socket
import threading

import pytest

from tramplab.base.errors import TramplabError
from tramplab.boot.gdb import Stub

#: A packet, or the byte that stops a machine.
_SENT = re.compile(rb"\$([^#]*)#([0-9a-f]{2})|\x03")


def packet(data):
    return b"$%b#%02x" % (data, sum(data) % 256)


@pytest.fixture
def machine():
    """A stub that knows these answers, and a client at it; the stub's end is closed when it is asked what it does not know."""
    ours, theirs = socket.socketpair()
    asked, answers = [], {}

    def serve():
        received = b""
        while data := theirs.recv(4096):
            received += data
            while found := _SENT.search(received):
                received = received[found.end() :]
                word = found[1].decode() if found[0] != b"\x03" else "stop"
                assert word == "stop" or sum(found[1]) % 256 == int(found[2], 16)
                asked.append(word)
                if word not in answers:
                    return theirs.close()
                theirs.sendall((b"" if word == "stop" else b"+") + answers[word])

    thread = threading.Thread(target=serve)
    with theirs:
        thread.start()
        with ours:
            yield Stub(ours), asked, answers
        thread.join()


def test_registers_and_memory_are_read_of_one_cpu(machine):
    stub, asked, answers = machine
    registers = b"".join(number.to_bytes(8, "little") for number in (1, 0xFFFF800009D6D5F0))
    answers |= {"Hg2": packet(b"OK"), "g": packet(registers.hex().encode()), "m1000,4": packet(b"01020304")}
    assert stub.registers(1) == [1, 0xFFFF800009D6D5F0]
    assert stub.memory(0x1000, 4) == b"\1\2\3\4"
    assert asked == ["Hg2", "g", "m1000,4"]


def test_cpus_go_on_until_a_breakpoint_or_for_some_time(machine):
    """An answer may come in parts, and two at once."""
    stub, asked, answers = machine
    answers |= {"Z1,ff,1": packet(b"OK"), "z1,ff,1": packet(b"OK"), "vCont;c:1;c:2": packet(b"T05thread:02;"), "D": packet(b"OK")}
    answers |= {"vCont;c:1": b"", "stop": packet(b"T02thread:01;")}
    stub.breakpoint(0xFF)
    stub.run(0, 1)
    stub.run(0, seconds=0.01)
    stub.remove(0xFF)
    stub.leave()
    assert asked == ["Z1,ff,1", "vCont;c:1;c:2", "vCont;c:1", "stop", "z1,ff,1", "D"]


@pytest.mark.parametrize("answer", [b"", b"E22"])
def test_a_stub_that_refuses_is_said(machine, answer):
    stub, _, answers = machine
    answers["Z1,1,1"] = packet(answer)
    with pytest.raises(TramplabError, match=r"QEMU's stub answers '(E22)?' to 'Z1,1,1': boot with QEMU 7.2 or a later one"):
        stub.breakpoint(1)


def test_a_machine_that_is_gone_ends_the_connection(machine):
    stub, *_ = machine
    with pytest.raises(ConnectionError):
        stub.run(0)
