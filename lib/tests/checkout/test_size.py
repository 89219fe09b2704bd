"""How many lines the tree has: by package and room, and no more than when somebody last looked; and no file and no function that
is long without a reason."""

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

from support import ROOT

#: Lines of the package, the tests and what builds the book, and 2 %.
MOST = 137_300
KINDS = {".py", ".c", ".h", ".S", ".js", ".inc"}
#: Lines of a file, and of a function of Python's, that need no reason; what is longer says in its first paragraph WHY.
FILE, FUNCTION = 300, 40
WHY = "long because"


def sources() -> dict[Path, str]:
    """What git tracks of these kinds, by the path from the root."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "lib", "book/_ext"]
    names = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.split("\0")
    paths = [path for path in map(Path, names) if path.suffix in KINDS and (ROOT / path).is_file()]
    return {path: (ROOT / path).read_text("utf-8") for path in paths}


def lines() -> Counter[str]:
    """Room -> its lines; a room is a folder of a package, or of the tests."""
    found: Counter[str] = Counter()
    for path, text in sources().items():
        found["/".join(path.parts[1:-1][:2])] += text.count("\n")
    return found


def opening(text: str) -> str:
    """The first paragraph of a docstring or of a comment in C, in one line."""
    return " ".join(re.split(r"\n[ *]*\n|\*/", text.strip())[0].replace("\n *", "\n").split())


def unexplained(path: Path, text: str) -> list[str]:
    """The file, and its functions, that are long and do not say why."""
    tree = ast.parse(text if path.suffix == ".py" else "")
    parts = [(str(path), text.count("\n"), FILE, ast.get_docstring(tree) or "" if path.suffix == ".py" else text)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or 0) - node.lineno + 1
            parts.append((f"{path}: {node.name}()", size, FUNCTION, ast.get_docstring(node) or ""))
    return [f"{name} has {size} lines" for name, size, most, said in parts if size > most and WHY not in opening(said)]


def test_the_tree_has_not_grown():
    rooms = lines()
    table = "\n".join(f"{room:<24}{count:>8}" for room, count in sorted(rooms.items()))
    print(table)
    assert len(rooms) > 40
    assert rooms.total() <= MOST, f"{table}\n{rooms.total()} lines: say in the commit what became larger, and raise it here"


def test_what_is_long_says_why():
    assert [said for path, text in sources().items() if path.suffix != ".js" for said in unexplained(path, text)] == []


def test_what_does_not_is_named():
    function = "def f():\n" + "    pass\n" * FUNCTION
    assert unexplained(Path("a.py"), function) == ["a.py: f() has 41 lines"]
    assert unexplained(Path("a.py"), function.replace(":", f':\n    """What it does,\n    {WHY} of it."""', 1)) == []
    for name, first, later in (("a.py", '"""A {}."""\n', '"""A.\n\n{}"""\n'), ("a.c", "/* A {} */\n", "/* A\n *\n * {}\n */\n")):
        found = [unexplained(Path(name), said + "\n" * FILE) for said in (first.format(WHY), first, later.format(WHY))]
        assert found == [[], [f"{name} has 301 lines"], [f"{name} has {later.count(chr(10)) + FILE} lines"]]
