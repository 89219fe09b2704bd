"""The kernel images in the cache: fetched from Debian's archive, each held against the SHA-256 of the list.

A file there has the cache's checksum behind the image (see cache.py): content() is the image and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

from ...base import cache
from ...base.errors import TramplabError
from ...base.paths import temporary
from .archive import Archive, Gone, NoLists
from .list import FILE, Package

_BLOCK = 1 << 20


def there(package: Package) -> bool:
    """Whether the image is in the cache; it may be damaged."""
    return cache.place(_name(package)).is_file()


def image(package: Package) -> Path:
    """The image's file in the cache, verified; raises TramplabError if it is not there or damaged."""
    return cache.publish(lambda _: _absent(package), _name(package))


def content(package: Package) -> bytes:
    """The image's bytes, verified; raises TramplabError if it is not there or damaged."""
    return cache.made(lambda _: _absent(package), _name(package))


def fetch(wanted: Iterable[Package], done: Callable[[Package, bool], None] = lambda package, new: None) -> None:
    """Put the images into the cache that are not there; done(package, whether it is new) is called as soon as each is there.

    Raises TramplabError at the first that fails, and what came before it is kept. Those of which the archive has another version
    by now are left out, and named at the end (Gone). Where one suite's list of an architecture cannot be had, as while a mirror is
    brought up to date, the images of all others are fetched before that is raised.
    """
    missing = []
    for package in wanted:
        if _whole(package):
            done(package, False)
        else:
            missing.append(package)
    if not missing:
        return
    gone: list[Package] = []
    why = _fetch(missing, done, gone)
    if why:
        _fetch_by_lists(missing, done, gone, why)
    if gone:
        raise Gone(gone)


def _fetch(missing: list[Package], done: Callable[[Package, bool], None], gone: list[Package]) -> NoLists | None:
    """Fetch what is missing; what the archive has no more is noted. Where the lists cannot be had nothing is, and this says why."""
    with temporary("tramplab-debian-") as folder:
        archive = Archive(folder, missing)
        try:
            archive.update()
        except NoLists as e:
            return e
        for package in missing:
            try:
                cache.publish(functools.partial(_made, archive, package), _name(package))
            except Gone as e:
                gone += e.packages
            else:
                done(package, True)
    return None


def _fetch_by_lists(missing: list[Package], done: Callable[[Package, bool], None], gone: list[Package], why: NoLists) -> None:
    """The same of each list by itself; raises at the end why the first is not to be had, if one is not. why: of all together."""
    lists: dict[tuple[str, str], list[Package]] = {}
    for package in missing:
        lists.setdefault((package.suite, package.architecture), []).append(package)
    if len(lists) == 1:
        raise why
    failed = [e for packages in lists.values() if (e := _fetch(packages, done, gone))]
    if failed:
        raise failed[0]


def unpack(deb: Path, package: Package, to: Path) -> Path:
    """Write the one file out of a package that is the image; raises TramplabError if it is not there, or not the listed one."""
    digest = hashlib.sha256()
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", str(deb)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as program:
        try:
            with tarfile.open(fileobj=program.stdout, mode="r|", encoding="utf-8") as files:  # modules are read over
                member = next((m for m in files if m.name.removeprefix("./") == package.path and m.isfile()), None)
                stream = files.extractfile(member) if member else None
                if stream is None:
                    raise TramplabError(f"{package} has no file {package.path}; correct the entry {package.name} of {FILE}.")
                with to.open("wb") as f:
                    while block := stream.read(_BLOCK):
                        digest.update(block)
                        f.write(block)
        except tarfile.TarError:
            raise TramplabError(f"the package {package} cannot be unpacked; run the same command again.") from None
        except OSError as e:
            raise TramplabError(
                f"the image {package.name} cannot be written ({e.strerror}): set TRAMPLAB_CACHE to a folder that has room."
            ) from None
        finally:
            program.kill()  # what comes behind the image is of no use
    if digest.hexdigest() != package.sha256:
        raise TramplabError(
            f"{package.path} of {package} has the SHA-256 {digest.hexdigest()} and not that of the entry {package.name} of {FILE}; "
            "it is not kept, so correct whichever of the two is wrong."
        )
    return to


def _made(archive: Archive, package: Package, folder: Path) -> Path:
    """The image, made in a folder that goes away with the package."""
    return unpack(archive.download(package, folder), package, folder / "image")


def _whole(package: Package) -> bool:
    """Is the image in the cache? A damaged one goes, so that only one line is said of it."""
    if not there(package):
        return False
    if cache.read(_name(package)) is not None:
        return True
    with contextlib.suppress(OSError):
        cache.remove(cache.place(_name(package)))
    return False


def _absent(package: Package) -> NoReturn:
    raise TramplabError(
        f"the kernel image {package.name} is not in the cache: fetch it with `make kernels` or "
        f"`python -m tramplab.vmlinux.debian {package.name}`."
    )


def _name(package: Package) -> str:
    return f"kernels/{package.sha256}.image"
