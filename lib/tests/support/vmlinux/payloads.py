"""Files opened as kernel images: what comes out, or the sentence on one that cannot be."""

from pathlib import Path

from tramplab.vmlinux.open.unpacking.payload import Payload, unpack

from ..complaints import complaint


def opened(place: Path, content: bytes) -> Payload:
    """A file with this content."""
    place.write_bytes(content)
    return unpack(place)


def refused(place: Path, content: bytes) -> str:
    """The sentence on a file with this content, from behind its name on."""
    place.write_bytes(content)
    return sentence(place)


def sentence(place: Path) -> str:
    """The sentence on what lies there, with FILE for its name."""
    said = complaint(lambda: unpack(place))
    shown = str(place).encode("unicode_escape").decode()  # as a sentence has it
    assert shown in said and ". " not in said
    return said.replace(shown, "FILE")
