"""The tests that a change needs at once: `make check` runs these, by the files that changed since a commit.

They are a part of `make test`, without the built book and without a browser, and prove less: what a change breaks further away,
`make test` finds. A file picks the tests of its room, those that import it, and what AFFECTED adds.
"""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
TESTS = ROOT / "lib" / "tests"
#: Always: imports, rules, vocabulary, commits. Of a second each.
ALWAYS = ("checkout",)
#: What is run without those that look at the built book.
OPTIONS = ("--without-book",)
#: Where rooms are -> where their tests are, in folders of the same names. The first that fits counts.
ROOMS = {"lib/tramplab_book/studies/": "studies/", "lib/tramplab_book/": "", "lib/tramplab/": "", "lib/tests/": ""}
#: Of what is here, every test that imports it is picked.
IMPORTED = ("lib/tests/support/", "lib/tramplab_book/studies/", "lib/bench/")
#: What the studies show of the lab, and what is said of it.
GOLDEN = ("studies/test_golden.py", "studies/test_findings.py")
#: Of rooms whose tests take minutes, those that are left out unless they are named.
SLOW = ("vmlinux/test_command.py", "vmlinux/test_hooks_real.py", "vmlinux/test_numbers.py")
#: Every claim is on one page.
BOXES = "publish/test_ledger.py::test_a_judged_claim_has_its_box_in_its_part_of_the_book"
#: Executes the pages of --pages.
CELLS = "book/test_cells.py"
#: What a file's path begins with -> tests, in tests/, besides those of its room. All that fit count.
AFFECTED: dict[str, tuple[str, ...]] = {
    "lib/tramplab/": GOLDEN,
    "lib/tramplab/guest/": ("trampolines", "ftrace", "lab", "build/test_images.py"),
    "lib/tramplab/isa/": ("emulate", "trampolines/test_abi.py"),
    "lib/tramplab/build/": ("lab", "trampolines/test_abi.py"),
    "lib/tramplab/emulate/": ("lab",),
    "lib/tramplab/ftrace/": ("lab", "trampolines"),
    "lib/tramplab/trampolines/": ("lab", "returns"),
    "lib/tramplab/lab/": ("cli",),
    "lib/tramplab/vmlinux/hooks/": ("vmlinux/test_hooks_real.py",),
    "lib/tramplab/vmlinux/booted/": ("vmlinux/test_numbers.py",),
    "lib/tramplab/vmlinux/command.py": ("vmlinux/test_command.py",),
    "lib/tramplab/cli.py": ("cli",),
    "lib/tramplab_book/": GOLDEN,
    "lib/tramplab_book/commands.py": ("cli",),
    "lib/tramplab_book/places.py": ("publish/test_publish.py", "cli/test_cli_update.py"),
    "lib/tramplab_book/studies/": ("publish/test_claims.py", "publish/figures/test_figures.py"),
    "lib/tests/support/promela/": ("races/test_races_spin.py",),
    "lib/tests/support/plugins/": ("cli", "native/test_saved_times.py"),
    "lib/pyproject.toml": ("build/test_images.py", "publish/figures/test_figures.py", "book/test_notebooks.py"),
    "lib/tramplab_book/pyproject.toml": ("publish/figures/test_figures.py", "book/test_notebooks.py"),
    "data/": ("base/test_contradicting_data.py", "base/test_damaged_data.py", "base/test_measured_data.py", "publish/test_data.py"),
    "data/addresses.yml": ("ftrace", *GOLDEN),
    "data/booted/": ("boot/test_saved_boots.py", *GOLDEN),
    "data/booted/replays.json": ("boot/test_replays.py",),
    "data/built/": ("kbuild", *GOLDEN),
    "data/kbuild/": ("kbuild",),
    "data/bpf-trampolines.json": ("boot/test_jit.py", *GOLDEN),
    "data/claims.yml": tuple(f"publish/test_{of}.py" for of in ("claims", "ledger", "verdicts", "references")),
    "data/context-programs.yml": ("sparsity", *GOLDEN),
    "data/core": ("estimate", *GOLDEN),
    "data/expected/": GOLDEN,
    "data/findings/": ("studies/test_findings.py", "publish/test_verdicts.py", "publish/figures/test_figures.py"),
    "data/function-sizes.yml": ("build/test_corpus.py", "vmlinux/test_sizes.py", *GOLDEN),
    "data/kernel": ("vmlinux/test_saved.py", "vmlinux/test_debian_list.py", "studies/test_real_kernels.py", *GOLDEN),
    "data/native/": ("native/test_saved_times.py", "studies/time", *GOLDEN),
    "data/permalinks.txt": ("publish/test_permalinks.py", "publish/test_citations.py"),
    "data/published.csv": ("publish/test_published.py", "publish/test_published_rows.py", "publish/test_references.py", *GOLDEN),
    "data/releases.yml": ("ftrace", "lab", "trampolines/test_release_faults.py", "book/test_history.py", *GOLDEN),
    "book/": ("book/test_prose.py", "book/test_history.py", "publish/test_permalinks.py", "publish/test_references.py", BOXES),
    "book/_": ("book", "publish/figures/test_chart_colours.py"),
    "book/claims.md": ("publish/test_ledger.py",),
    "book/direct-": ("studies/direct",),
    "book/kretprobe": ("studies/returns",),
    "_config.yml": ("book", "publish/figures/test_figures.py"),
    "_toc.yml": ("book", "publish/test_permalinks.py"),
    "CITATION.cff": ("base/test_revision.py", "publish/test_citations.py", "publish/figures/test_figures.py"),
    "CONTRIBUTING.md": ("recipes/test_recipes.py::test_contributing_names_every_recipe",),
    "Makefile": ("native/test_saved_times.py", "book/test_failed_builds.py"),
}


def chosen_for(changed: list[str]) -> list[str]:
    """The tests for files that changed, in tests/."""
    chosen = dict.fromkeys((*ALWAYS, *(one for path in changed for one in _for(path))))
    there = [one for one in chosen if (TESTS / one.partition("::")[0]).exists()]
    return [one for one in there if not any(one.startswith((f"{other}/", f"{other}::")) for other in there)]


def pages_for(changed: list[str]) -> list[str]:
    """The pages to execute, by name: those that changed, and those that import a study that did."""
    pages = {path.stem: path.read_text("utf-8") for path in sorted((ROOT / "book").glob("*.md"))}
    packages = [_module(path).rpartition(".") for path in changed if path.startswith("lib/tramplab_book/studies/")]
    studies = [rf"from {re.escape(package)}(\.{name}| import (\([^)]*|.*)\b{name})\b" for package, _, name in packages]
    found = [f"book/{page}.md" in changed or any(re.search(study, text) for study in studies) for page, text in pages.items()]
    return [page for page, is_so in zip(pages, found, strict=True) if is_so]


def arguments(changed: list[str]) -> list[str]:
    """What pytest is given, in lib/."""
    tests, pages = chosen_for(changed), pages_for(changed)
    asked = (*tests, CELLS) if pages and "book" not in tests else tests
    return [*OPTIONS, *([f"--pages={','.join(pages)}"] if pages else []), *(f"tests/{one}" for one in asked)]


def _for(path: str) -> Iterator[str]:
    for start, found in AFFECTED.items():
        if path.startswith(start):
            yield from found
    yield from _room(path)
    yield from _importing(path)


def _room(path: str) -> tuple[str, ...]:
    """The tests of a file's room; of a test, itself; of what else is in a folder of tests, those there."""
    start = next((start for start in ROOMS if path.startswith(start)), "")
    folder, _, name = path.removeprefix(start).rpartition("/")
    if not start or not folder or folder.startswith("support"):
        return ()
    if start == "lib/tests/":
        return (f"{folder}/{name}",) if name.startswith("test_") else (folder,)
    room = f"{ROOMS[start]}{folder.partition('/')[0]}"
    slow = {one for one in SLOW if one.startswith(f"{room}/")}
    files = (path.relative_to(TESTS).as_posix() for path in sorted((TESTS / room).rglob("test_*.py")))
    return tuple(one for one in files if one not in slow) if slow else (room,)


def _importing(path: str) -> Iterator[str]:
    """The tests that import a helper, a study or a bench, also by way of helpers."""
    todo = [path] if path.endswith(".py") and not path.endswith("__init__.py") else []
    found: set[str] = set()
    while todo:
        if (one := todo.pop()).startswith(IMPORTED) and one not in found:
            todo += [file for file, names in _imports().items() if any(f"{n}.".startswith(f"{_module(one)}.") for n in names)]
        found.add(one)
    for file in sorted(found - {path}):
        yield from _room(file)


def _module(path: str) -> str:
    """As a test imports it."""
    return path.removesuffix(".py").removeprefix("lib/").removeprefix("tests/").replace("/", ".")


@functools.cache
def _imports() -> dict[str, set[str]]:
    """File of tests -> the dotted names that it imports."""
    found: dict[str, set[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
        named = {f"{n.module}.{alias.name}" for n in nodes if isinstance(n, ast.ImportFrom) for alias in n.names}
        whole = {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
        found[path.relative_to(ROOT).as_posix()] = named | whole
    return found


def changed_since(commit: str) -> list[str]:
    """Files that differ from a commit, new ones included."""
    ask = ["git", "-C", str(ROOT)]
    differ = subprocess.run([*ask, "diff", "--name-only", commit], capture_output=True, encoding="utf-8", check=True).stdout
    new = subprocess.run([*ask, "ls-files", "-o", "--exclude-standard"], capture_output=True, encoding="utf-8", check=True).stdout
    return [*differ.splitlines(), *new.splitlines()]


if __name__ == "__main__":
    print(*arguments(changed_since(*sys.argv[1:])))
