"""The tests that a change needs at once: `make check` runs these, by the files that changed since a commit.

They are a part of `make test`, without the book and without a browser, and prove less: what a change breaks further away,
`make test` finds.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
TESTS = ROOT / "lib" / "tests"
#: Always: imports, rules, vocabulary, commits. Of a second each.
ALWAYS = ("checkout",)
GOLDEN = ("studies/test_golden.py", "studies/test_findings.py")
#: What a file's path begins with -> the tests, in tests/. The first that fits counts; a room without an entry needs its own tests.
AFFECTED = {
    "lib/tramplab/guest/": ("trampolines/test_trampolines.py", "trampolines/test_abi.py", "lab/test_runs.py", *GOLDEN),
    "lib/tramplab/trampolines/": ("trampolines/test_trampolines.py", "trampolines/test_makers.py", "trampolines/test_abi.py"),
    "lib/tramplab/ftrace/": ("ftrace", "lab", "trampolines/test_makers.py"),
    "lib/tramplab/emulate/": ("emulate/test_counting.py", "emulate/test_machine.py", "lab/test_runs.py"),
    "lib/tramplab/vmlinux/": ("vmlinux/test_saved.py", "vmlinux/test_numbers.py", "vmlinux/run/test_early.py"),
    "lib/tramplab/boot/": ("boot/test_qemu.py", "boot/test_counted.py", "boot/test_saved_boots.py", "boot/test_jit.py"),
    "lib/tramplab_book/publish/": ("publish/figures", "publish/test_claims.py", *GOLDEN),
    "lib/tramplab_book/studies/": GOLDEN,
    "data/": (
        *("base/test_contradicting_data.py", "ftrace/test_releases.py", "publish/test_data.py", "publish/test_claims.py"),
        *GOLDEN,
    ),
    "book/": ("book/test_prose.py", "publish/test_permalinks.py"),
}


def chosen_for(changed: list[str]) -> list[str]:
    """The tests for files that changed, in tests/: a room's own where AFFECTED names none, and a changed test itself."""
    chosen = dict.fromkeys(ALWAYS)
    for path in changed:
        parts = Path(path).parts
        if path.startswith("lib/tests/") and parts[-1].startswith("test_") and (ROOT / path).is_file() and parts[2] != "book":
            chosen[path.removeprefix("lib/tests/")] = None
        elif found := next((found for start, found in AFFECTED.items() if path.startswith(start)), None):
            chosen |= dict.fromkeys(found)
        elif path.startswith("lib/tramplab/") and (TESTS / parts[2]).is_dir():
            chosen[parts[2]] = None
    within = [one for one in chosen if "/" in one and one.partition("/")[0] in chosen]
    return [one for one in chosen if one not in within]


def changed_since(commit: str) -> list[str]:
    """Files that differ from a commit, new ones included."""
    ask = ["git", "-C", str(ROOT)]
    differ = subprocess.run([*ask, "diff", "--name-only", commit], capture_output=True, encoding="utf-8", check=True).stdout
    new = subprocess.run([*ask, "ls-files", "-o", "--exclude-standard"], capture_output=True, encoding="utf-8", check=True).stdout
    return [*differ.splitlines(), *new.splitlines()]


if __name__ == "__main__":
    print(*(f"tests/{one}" for one in chosen_for(changed_since(*sys.argv[1:]))))
