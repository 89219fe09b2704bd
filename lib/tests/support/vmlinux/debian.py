"""A folder that is like Debian's archive, with packages that are made up."""

import hashlib
import io
import tarfile
from pathlib import Path

from tramplab.vmlinux.debian.list import Package

#: Debian's names, and ours.
ARCHITECTURES = {"amd64": "x86_64", "arm64": "arm64", "riscv64": "riscv64"}


def package(archive: Path, name: str, image: bytes, architecture: str = "amd64") -> Package:
    """Put a package with an image between other files into the archive."""
    path, digest = f"boot/vmlinuz-{name}", hashlib.sha256(image).hexdigest()
    isa = ARCHITECTURES[architecture]
    made = Package(name, "sid", f"linux-image-{name}", architecture, "7.2.1-3", path, digest, "", "v7.2", isa)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz", encoding="utf-8") as files:
        for member, content in (("./a/module.ko", b"x" * 2000), (f"./{path}", image), ("./z/module.ko", b"y" * 50_000)):
            info = tarfile.TarInfo(member)
            info.size = len(content)
            files.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("./vmlinuz")
        link.type, link.linkname = tarfile.SYMTYPE, path
        files.addfile(link)
    members = {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", "data.tar.xz": data.getvalue()}
    (archive / made.file).parent.mkdir(parents=True, exist_ok=True)
    (archive / made.file).write_bytes(b"!<arch>\n" + b"".join(_member(*member) for member in members.items()))
    return made


def _member(name: str, content: bytes) -> bytes:
    """A member of an `ar` archive, padded to an even length."""
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n"
    return header.encode() + content + b"\n" * (len(content) % 2)
