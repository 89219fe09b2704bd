"""The recipes of CONTRIBUTING, followed to the letter: the commands that a reader types, in a copy of the checkout."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT, only_ci
from tramplab.ftrace import releases

RECIPES = Path(__file__).parent
#: What a run of tests tells its processes, and git and make those that they start; and that it is CI's.
OURS = ("TRAMPLAB_", "PYTEST_", "GIT_", "MAKE", "CI")
#: The recipe whose update takes minutes, and the others.
RELEASE = "release.txt"
QUICK = sorted(path.name for path in RECIPES.iterdir() if path.suffix in (".diff", ".txt") and path.name != RELEASE)


def run(copy: Path, command: str, **more: str) -> str:
    """What a command prints in the copy, whose package and data it uses, with more in its environment; it must succeed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS) or name == "TRAMPLAB_CACHE"}
    env = {**kept, "PYTHONPATH": str(copy / "lib"), **more}
    done = subprocess.run(["sh", "-c", command], cwd=copy, env=env, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture
def copy(tmp_path):
    """A clone, with what is not committed yet, and this environment as its own."""
    folder = tmp_path / "copy"
    ask = ["git", "-C", str(ROOT)]
    subprocess.run([*ask, "clone", "-q", str(ROOT), str(folder)], check=True, capture_output=True)
    changes = subprocess.run([*ask, "diff", "--binary", "HEAD"], check=True, capture_output=True).stdout
    if changes:
        subprocess.run(["git", "-C", str(folder), "apply"], input=changes, check=True)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def commands(recipe: str) -> list[str]:
    """What its file says is to be typed."""
    return re.findall(r"^\$ (.+)$", (RECIPES / recipe).read_text("utf-8"), re.M)


#: The next one after the last that there is.
MAJOR, MINOR = releases.parse(releases.known()[-1])
NEXT = f"v{MAJOR}.{MINOR + 1}"


def add_release(copy: Path) -> None:
    """Two values of one file."""
    path = copy / "data" / "releases.yml"
    text = path.read_text("utf-8")
    for old, new in ((f"last: {releases.known()[-1]}\n", f"last: {NEXT}\n"), (f" {MAJOR}: {MINOR}}}", f" {MAJOR}: {MINOR + 1}}}")):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text, "utf-8")


def add_image(copy: Path) -> None:
    """As `make kernels` leaves them: here the counts are those of another flavour, and nothing is fetched. And the checksum."""
    folder, checked = copy / "data" / "kernels", copy / "lib" / "tests" / "base" / "test_measured_data.py"
    path, one, other = folder / "packages.yml", "debian-7.2-arm64-16k", "debian-7.2-cloud-arm64"
    text = path.read_text("utf-8")
    entry = re.search(rf"  - name: {one}\n(?:    .*\n)+", text)[0]
    checksum = re.search(r'sha256: "(\w+)"', entry)[1]

    def renamed(said: str) -> str:
        return said.replace("arm64-16k", "cloud-arm64").replace('"16k"', '"cloud"').replace(checksum, checksum[::-1])

    path.write_text(text.replace(entry, entry + renamed(entry)), "utf-8")
    (folder / f"{other}.json").write_text(renamed((folder / f"{one}.json").read_text("utf-8")), "utf-8")
    said = run(copy, f".venv/bin/python -m pytest {checked} || true")
    written, digest = checked.read_text("utf-8"), re.search(r"kernels/\*\.json has (\w+) now", said)[1]
    checked.write_text(re.sub(r'(?<="kernels/\*\.json": ")\w+', digest, written), "utf-8")


#: What a reader writes by hand before a recipe's commands.
WRITTEN = {"kernel-image.txt": add_image, "release.txt": add_release}
#: What its commands then print.
PRINTED = {"core.txt": "broadwell", "kernel-image.txt": "\narm64,v7.2,cloud,", RELEASE: NEXT}

#: Of what `make check` then picks, and all of which is imported, what sees a recipe: tables, findings, rules of the checkout, data
#: and refusals. All of it takes eight minutes, and the checkout itself passes the rest in the same run.
SEES = "golden or findings or checkout or data or errors or register_map or real_kernels or cores"


def follow(copy: Path, recipe: str, but: str | None = None, **more: str) -> None:
    """By hand and by its commands, but those with a word in them; with more in their environment."""
    if write := WRITTEN.get(recipe):
        write(copy)
    typed = commands(recipe)
    assert recipe.endswith(".txt") or typed[0] == f"git apply lib/tests/recipes/{recipe}"
    printed = [run(copy, command, **more) for command in typed if but is None or but not in command]
    assert PRINTED.get(recipe, "") in "".join(printed)


@pytest.mark.parametrize("recipe", QUICK)
def test_a_recipe_works_as_it_is_written(recipe, copy):
    follow(copy, recipe)


@only_ci
def test_make_check_is_green_after_all_of_them(copy, tmp_path):
    """In one copy, as most of what it picks is the same for each: their own tests are among them. The release is last: its update
    makes every table, and changes none, as none shows it yet and no other recipe has left one behind. The rows that it makes are
    those of the tests. With -o make installs nothing."""
    for recipe in QUICK:
        follow(copy, recipe, but="pytest")
    run(copy, "git add book data lib")
    follow(copy, RELEASE, but="pytest", TRAMPLAB_ROWS=str(tmp_path))
    assert run(copy, "git diff --name-only").split() == ["data/releases.yml"]
    run(copy, "make -o .venv/test check", TRAMPLAB_ROWS=str(tmp_path), PYTEST_ADDOPTS=f'-k "{SEES}"')


def test_contributing_names_every_recipe():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert [name for name in (RELEASE, *QUICK) if f"`lib/tests/recipes/{name}`" not in text] == []
