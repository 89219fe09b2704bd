"""A Debian machine that is made up: its /etc/apt, an archive, and the programs that fetch and unpack."""

import hashlib
import io
import os
import tarfile
import tempfile
from pathlib import Path

import pytest

from tramplab.vmlinux.debian import archive
from tramplab.vmlinux.debian.list import Package

#: Debian's names, and ours.
ARCHITECTURES = {"amd64": "x86_64", "arm64": "arm64", "riscv64": "riscv64"}

APT_GET = """\
#!/bin/sh
[ "$LC_ALL" = C ] || exit 9  # what it says is read
settings=$3 command=$4 asked=$5
echo "$command $asked" | sed 's/ $//' >> "$HERE/calls"
cp "$settings" "$HERE/settings" && cp "${settings%/*}/sources/debian.sources" "$HERE/sources"
[ "$command" != update ] || ! grep -q "^Architectures:.*$(cat "$HERE/broken" 2>/dev/null || echo none)" "$HERE/sources" || {
	echo "E: Failed to fetch http://mirror.example/Packages.xz  File has unexpected size. Mirror sync in progress?" >&2; exit 100; }
[ ! -f "$HERE/$command.says" ] || cat "$HERE/$command.says" >&2
[ ! -f "$HERE/$command.status" ] || exit "$(cat "$HERE/$command.status")"
[ "$command" = download ] || exit 0
rest=${asked#*:}
deb="${asked%%:*}_${rest#*=}_${rest%%=*}.deb"
[ -f "$HERE/pool/$deb" ] || { echo "E: Version '${rest#*=}' for '${asked%%:*}' was not found" >&2; exit 100; }
cp "$HERE/pool/$deb" .
"""
#: Packages of the archive that is made up are plain tar files.
DPKG_DEB = """\
#!/bin/sh
[ "$1" = --fsys-tarfile ] && exec cat "$2"
"""


def etc(folder: Path, **files: str) -> Path:
    """A folder like /etc/apt; a file of the folder in it has __ for the dot."""
    (folder / "sources.list.d").mkdir(parents=True)
    for key, text in files.items():
        name = key.replace("__", ".")
        (folder / name if name == "sources.list" else folder / "sources.list.d" / name).write_text(text, "utf-8")
    return folder


class Machine:
    """A Debian machine with an archive that has some packages, and what its apt-get was called for."""

    def __init__(self, folder: Path) -> None:
        self.here = folder
        (folder / "pool").mkdir()
        for name, text in (("apt-get", APT_GET), ("dpkg-deb", DPKG_DEB)):
            program = folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(text, "utf-8")
            program.chmod(0o755)

    def package(self, name: str, image: bytes, architecture: str = "amd64") -> Package:
        """Put a package with an image between other files into the archive."""
        path = f"boot/vmlinuz-{name}"
        found = Package(
            name, "sid", f"linux-image-{name}", architecture, "1.2-3", path, hashlib.sha256(image).hexdigest(), "", "v7.2", "x86_64"
        )
        with tarfile.open(self.deb(found), "w", encoding="utf-8") as deb:
            for member, content in (("./a/module.ko", b"x" * 2000), (f"./{path}", image), ("./z/module.ko", b"y" * 50_000)):
                info = tarfile.TarInfo(member)
                info.size = len(content)
                deb.addfile(info, io.BytesIO(content))
            link = tarfile.TarInfo("./vmlinuz")
            link.type, link.linkname = tarfile.SYMTYPE, path
            deb.addfile(link)
        return found

    def deb(self, package: Package) -> Path:
        return self.here / "pool" / f"{package.package}_{package.version}_{package.architecture}.deb"

    def says(self, command: str, said: str, status: int) -> None:
        """From now on a command of apt-get says this, and ends like that."""
        (self.here / f"{command}.says").write_text(said, "utf-8")
        (self.here / f"{command}.status").write_text(str(status), "utf-8")

    def breaks(self, architecture: str) -> None:
        """From now on the list of packages for this one cannot be fetched."""
        (self.here / "broken").write_text(architecture, "utf-8")

    def calls(self) -> list[str]:
        """What apt-get was called for since the last time."""
        log = self.here / "calls"
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    def left(self) -> list[str]:
        """What is in the cache and among temporary files, besides whole images."""
        paths = [*(self.here / "cache").rglob("*"), *(self.here / "temporary").iterdir()]
        return [str(p) for p in paths if p.name != "kernels" and not p.name.endswith(".sha256.image")]


def made_up(folder: Path, patch: pytest.MonkeyPatch) -> Machine:
    """Such a machine in a folder, in which this process is from now on."""
    folder.mkdir(exist_ok=True)
    made = Machine(folder)
    (folder / "temporary").mkdir()
    patch.setenv("HERE", str(folder))
    patch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    patch.setattr(tempfile, "tempdir", str(folder / "temporary"))
    patch.setattr(archive, "ETC", etc(folder / "etc", sources__list="deb http://mirror.example/debian trixie main\n"))
    return made
