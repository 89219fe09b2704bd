"""Debian's archive through the machine's own apt-get, with settings, lists and cache in a folder of their own.

Nothing of the machine's package state is read or changed; its proxies and passwords are used, as they are in apt's settings.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...base.errors import TramplabError
from . import sources
from .list import Package

#: Where the machine's sources are.
ETC = Path("/etc/apt")
_PROGRAMS = ("apt-get", "dpkg-deb")
# The hooks of the machine's settings would clean and index its own folders. Any user may run this, so nothing is done as
# another user, who could not write here. An index that cannot be fetched is an error, not a warning. The cache is switched on
# because some machines have it off, and each download would take seconds more.
_SETTINGS = """\
#clear APT::Architectures;
#clear APT::Default-Release;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Architectures "{architectures}";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::GzipIndexes "true";
Acquire::Languages "none";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{folder}/sources";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "{folder}/preferences";
Dir::State "{folder}/state";
Dir::State::lists "{folder}/lists";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Cache::archives "{folder}/cache/archives";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "";
"""
#: apt-get's message for a package or a version that is in no list.
_ABSENT = re.compile(
    r"^E: (Version '.*' for '.*' was not found|Unable to locate package|Can't find a source to download"
    r"|Package '.*' has no installation candidate|Can't select versions from package .* purely virtual)",
    re.M,
)


class Gone(TramplabError):
    """The archive has other versions of these packages by now."""

    status = 3

    def __init__(self, packages: Sequence[Package]) -> None:
        self.packages = tuple(packages)
        names = ", ".join(f"{p.package}:{p.architecture} {p.version}" for p in packages)
        super().__init__(
            f"Debian's archive no longer has {names}: the counts that are saved stay, and snapshot.debian.org, Debian's archive of "
            "old packages, has what it had."
        )


class NoLists(TramplabError):
    """apt could not fetch the lists of packages."""


class Archive:
    """The suites and architectures of some packages; raises TramplabError where the machine has no Debian."""

    def __init__(self, folder: Path, wanted: Iterable[Package]) -> None:
        if absent := [name for name in _PROGRAMS if not shutil.which(name)]:
            raise TramplabError(
                f"there is no {' and no '.join(absent)} here: the kernel images are fetched with Debian's own programs, so do it "
                "on a machine that runs Debian; the counts that are saved need no image."
            )
        suites: dict[str, dict[str, None]] = {}
        for p in wanted:
            suites.setdefault(p.suite, {})[p.architecture] = None
        text = sources.private(sources.debian(ETC), suites)
        for name in ("sources", "preferences", "state", "lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        (folder / "sources" / "debian.sources").write_text(text, "utf-8")
        (folder / "status").touch()
        architectures = ",".join(dict.fromkeys(a for suite in suites.values() for a in suite))
        self._settings = folder / "apt.conf"
        self._settings.write_text(_SETTINGS.format(folder=folder, architectures=architectures), "utf-8")
        self._folder = folder

    def update(self) -> None:
        """Fetch the lists of packages; raises NoLists with apt's own words."""
        done = self._run(self._folder, "update")
        if done.returncode or "Failed to fetch" in done.stderr:  # of which apt before 2.1.8 only warns
            raise _failed("update", done, NoLists)

    def download(self, package: Package, folder: Path) -> Path:
        """The package's file, in a folder that has no other; raises Gone if the lists do not have this version of it, and
        TramplabError with apt's own words for what else goes wrong."""
        done = self._run(folder, "download", f"{package.package}:{package.architecture}={package.version}")
        packages = list(folder.glob("*.deb"))
        if done.returncode == 0 and len(packages) == 1:
            return packages[0]
        raise Gone([package]) if _ABSENT.search(done.stderr) else _failed("download", done)

    def _run(self, where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["apt-get", "-q", "-c", str(self._settings), *arguments],
            check=False,
            cwd=where,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
        )


def _failed(what: str, done: subprocess.CompletedProcess[str], kind: type[TramplabError] = TramplabError) -> TramplabError:
    """With apt's first line about an error, or of whatever it says where it names none."""
    lines = [" ".join(line.split()) for line in done.stderr.splitlines() if line.strip()] or ["it does not say why"]
    first = next((line for line in lines if line.startswith("E:")), lines[0]).removeprefix("E:").strip(" .")
    return kind(
        f"apt-get {what} failed ({first}); what was fetched before is kept, so run the same command again when this is put right."
    )
