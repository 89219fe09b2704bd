"""How many lines the tree has: by package and room, and no more than when somebody last looked."""

import subprocess
from collections import Counter
from pathlib import Path

from support import ROOT

#: Lines of the package, the tests and what builds the book, and 2 %.
MOST = 137_300
KINDS = {".py", ".c", ".h", ".S", ".js", ".inc"}


def lines() -> Counter[str]:
    """Room -> its lines, of the files that git tracks; a room is a folder of a package, or of the tests."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "lib", "book/_ext"]
    names = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.split("\0")
    found: Counter[str] = Counter()
    for path in (Path(name) for name in names if Path(name).suffix in KINDS):
        found["/".join(path.parts[1:-1][:2])] += (ROOT / path).read_bytes().count(b"\n") if (ROOT / path).is_file() else 0
    return found


def test_the_tree_has_not_grown():
    rooms = lines()
    table = "\n".join(f"{room:<24}{count:>8}" for room, count in sorted(rooms.items()))
    print(table)
    assert len(rooms) > 40
    assert rooms.total() <= MOST, f"{table}\n{rooms.total()} lines: say in the commit what became larger, and raise it here"
