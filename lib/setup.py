"""Builds a wheel of the lab, or, run from tramplab_book/, of the book: with its part of data/, and the commit of the checkout."""

import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent.parent
#: Of data/ what the book alone has; all else are facts and measurements of the lab.
BOOKS = ("claims.yml", "permalinks.txt", "published.csv", "findings/*.yml", "expected/*.txt")
#: Package -> the files of the checkout that its wheel has, besides sources.
BROUGHT = {
    "tramplab": sorted(p for p in (ROOT / "data").rglob("*.*") if not any(p.match(f"data/{books}") for books in BOOKS)),
    "tramplab_book": [p for b in (*(f"data/{b}" for b in BOOKS), "book/*.md", "CITATION.cff") for p in sorted(ROOT.glob(b))],
}


class WithData(build_py):
    """Puts beside the sources of a package what its wheel has besides."""

    def run(self) -> None:
        """Build, and copy; what is installed as editable finds its data in the checkout."""
        super().run()
        if self.editable_mode:
            return
        package = next(name for name in BROUGHT if name in self.packages)
        folder = Path(self.build_lib) / package
        for path in BROUGHT[package]:
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        changed = "+" if git("status", "--porcelain", "--untracked-files=no") else ""
        (folder / "commit.txt").write_text(f"{git('rev-parse', '--short=12', 'HEAD')}{changed}\n", "utf-8")


def git(*arguments: str) -> str:
    """What git says of the checkout; "" where it says nothing, or is not there."""
    if not shutil.which("git"):
        return ""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, encoding="utf-8", check=False)
    return done.stdout.strip()


setup(cmdclass={"build_py": WithData})
