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
#: What a run of tests tells its processes, and git those that it starts.
OURS = ("TRAMPLAB_", "PYTEST_", "GIT_")


def run(copy: Path, command: str) -> str:
    """What a command prints in the copy, whose package and data it uses; it must succeed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS) or name == "TRAMPLAB_CACHE"}
    env = {**kept, "PYTHONPATH": str(copy / "lib")}
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


@pytest.mark.parametrize("recipe", sorted(path.name for path in RECIPES.glob("*.diff")))
def test_a_recipe_works_as_it_is_written(recipe, copy):
    typed = commands(recipe)
    assert typed[0] == f"git apply lib/tests/recipes/{recipe}"
    for command in typed:
        run(copy, command)


def test_a_core_is_one_file(copy):
    for command in commands("core.txt"):
        run(copy, command)
    assert "broadwell" in run(copy, ".venv/bin/python -m tramplab list")


def test_an_image_is_an_entry_and_its_counts(copy):
    """As `make kernels` leaves them: here the counts are those of another flavour, and nothing is fetched."""
    folder = copy / "data" / "kernels"
    path, one, other = folder / "packages.yml", "debian-6.12-cloud-amd64", "debian-6.12-rt-amd64"
    text = path.read_text("utf-8")
    entry = re.search(rf"  - name: {one}\n(?:    .*\n)+", text)[0]
    checksum = re.search(r'sha256: "(\w+)"', entry)[1]

    def renamed(said: str) -> str:
        return said.replace("cloud", "rt").replace(checksum, checksum[::-1])

    path.write_text(text.replace(entry, entry + renamed(entry)), "utf-8")
    (folder / f"{other}.json").write_text(renamed((folder / f"{one}.json").read_text("utf-8")), "utf-8")
    printed = [run(copy, command) for command in commands("kernel-image.txt")]
    assert "\nx86_64,v6.12,rt," in printed[-1]


@only_ci
def test_a_release_is_two_values_of_one_file(copy):
    """The next one after the last that there is: no table changes, because none shows it yet."""
    last, path = releases.known()[-1], copy / "data" / "releases.yml"
    major, minor = releases.parse(last)
    text = path.read_text("utf-8")
    for old, new in ((f"last: {last}\n", f"last: v{major}.{minor + 1}\n"), (f" {major}: {minor}}}", f" {major}: {minor + 1}}}")):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text, "utf-8")
    for command in commands("release.txt"):
        run(copy, command)
    assert run(copy, "git diff --name-only data").split() == ["data/releases.yml"]
    assert f"v{major}.{minor + 1}" in run(copy, ".venv/bin/python -m tramplab list")


def test_contributing_names_every_recipe():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    recipes = [path.name for path in RECIPES.iterdir() if path.suffix in (".diff", ".txt")]
    assert [name for name in recipes if f"`lib/tests/recipes/{name}`" not in text] == []
