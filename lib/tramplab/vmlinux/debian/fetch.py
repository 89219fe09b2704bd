"""The kernel images in the cache: each read out of its package in Debian's archive and held against the SHA-256 of the list.

A package is an `ar` archive, the last member of which is a compressed tar archive. It is read while it arrives and only as far
as the image, which lies before most of the modules.
"""

from __future__ import annotations

import functools
import hashlib
import http.client
import lzma
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, NoReturn

from ...base import cache
from ...base.errors import TramplabError
from .list import FILE, Package

_SECONDS = 60  # without a byte, before a connection is given up
_DAMAGED = (tarfile.TarError, lzma.LZMAError, EOFError, ValueError)


class Gone(TramplabError):
    """Raised where the archives do not have these packages."""

    status = 3

    def __init__(self, archives: Iterable[str], packages: Iterable[Package]) -> None:
        names = ", ".join(f"{p.package}:{p.architecture} {p.version}" for p in packages)
        super().__init__(
            f"{' and '.join(archives)} no longer has {names}: the counts that are saved stay, and the archive as it was on a day "
            "that had them can be named with --archive."
        )


@functools.cache
def of_apt() -> tuple[str, ...]:
    """The addresses of the copies of Debian's archive that apt uses on this machine; raises TramplabError where it uses none."""
    try:
        command = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        found = tuple(dict.fromkeys(done.stdout.split()))
    except OSError:
        found = ()
    if not found:
        raise TramplabError("apt names no copy of Debian's archive: run `apt-get update`, or name one with --archive ADDRESS.")
    return found


def there(package: Package) -> bool:
    """Is the image in the cache?"""
    return cache.place(_name(package)).is_file()


def image(package: Package) -> Path:
    """The image's file in the cache; raises TramplabError if it is not there."""
    return cache.publish(lambda _: _absent(package), _name(package))


def content(package: Package) -> bytes:
    """The image's bytes; raises TramplabError if it is not there, or other bytes are."""
    found = image(package).read_bytes()
    if hashlib.sha256(found).hexdigest() != package.sha256:
        raise TramplabError(f"{image(package)} is damaged: remove it, and fetch it with `make kernels`.")
    return found


def fetch(
    wanted: Iterable[Package], done: Callable[[Package], None] = lambda package: None, archives: Sequence[str] = ()
) -> None:
    """Put the images into the cache that are not there; done(package) is called as soon as each is there.

    archives: addresses of folders that have Debian's pool/; the first that has a package will do. Without any, those of apt.
    Raises TramplabError at the first image that cannot be fetched, and what came before it is kept. Those that no archive has are
    left out, and named at the end (Gone).
    """
    gone: list[Package] = []
    for package in wanted:
        try:
            cache.publish(functools.partial(_fetched, package, archives), _name(package))
        except Gone:
            gone.append(package)
        else:
            done(package)
    if gone:
        raise Gone(archives or of_apt(), gone)


def _fetched(package: Package, archives: Sequence[str], folder: Path) -> Path:
    """Write the image into a folder; returns its file."""
    archives = archives or of_apt()
    answers = (_from(f"{one.rstrip('/')}/{package.file}", package) for one in archives)
    if (found := next((answer for answer in answers if answer is not None), None)) is None:
        raise Gone(archives, [package])
    digest = hashlib.sha256(found).hexdigest()
    if digest != package.sha256:
        raise TramplabError(
            f"{package.path} of {package} has the SHA-256 {digest} and not that of the entry {package.name} of {FILE}; it is not "
            "kept, so correct whichever of the two is wrong."
        )
    file = folder / "image"
    file.write_bytes(found)
    return file


def _from(address: str, package: Package) -> bytes | None:
    """The image out of the package at an address; None if there is no package."""
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as deb:
            return _image(deb, package)
    except urllib.error.HTTPError as e:
        if e.code == 404:
            return None
        raise _failed(address, f"{e.code} {e.reason}") from None
    except _DAMAGED:
        raise _failed(address, "there is no whole package") from None
    except (OSError, http.client.HTTPException) as e:
        raise _failed(address, str(getattr(e, "reason", e)) or "the connection ended") from None


def _image(deb: IO[bytes], package: Package) -> bytes:
    """The image out of a package; raises one of _DAMAGED, OSError or HTTPException where that ends early, TramplabError where the
    package has no such file."""
    deb.read(len(b"!<arch>\n"))
    while not (header := deb.read(60)).startswith(b"data.tar"):
        size = int(header[48:58])
        deb.read(size + size % 2)
    with tarfile.open(fileobj=deb, mode="r|*", encoding="utf-8") as files:
        for member in files:
            if member.name.removeprefix("./") == package.path and (stream := files.extractfile(member)):
                return stream.read()
    raise TramplabError(f"{package} has no file {package.path}; correct the entry {package.name} of {FILE}.")


def _failed(address: str, why: str) -> TramplabError:
    return TramplabError(
        f"cannot fetch {address} ({why}); what was fetched before is kept, so run the same command again when this is put right."
    )


def _absent(package: Package) -> NoReturn:
    raise TramplabError(
        f"the kernel image {package.name} is not in the cache: fetch it with `make kernels` or "
        f"`python -m tramplab.vmlinux.debian {package.name}`."
    )


def _name(package: Package) -> str:
    return f"kernels/{package.sha256}.image"
