"""What `make check` runs: tests that exist, of every room, and never those that look at the built book."""

import subprocess
import sys

import pytest

from support import ROOT
from support.checkout.affected import AFFECTED, ALWAYS, CELLS, IMPORTED, ROOMS, SLOW, TESTS, arguments, chosen_for, pages_for

#: The pages that import the study `found`.
SHOW_FOUND = ["direct-many", "findings", "kretprobe-migration"]


def rooms(package: str) -> list[str]:
    """The folders of a package."""
    return sorted(path.name for path in (ROOT / package).iterdir() if path.is_dir() and path.name != "__pycache__")


def test_what_is_named_exists():
    for found in (ALWAYS, SLOW, (CELLS,), *AFFECTED.values()):
        assert [one for one in found if not (TESTS / one.partition("::")[0]).exists()] == []
    assert [start for start in (*AFFECTED, *ROOMS, *IMPORTED) if not any(ROOT.glob(f"{start}*"))] == []


def own(path: str, folder: str) -> set[str]:
    """What a change picks of the tests of a folder, as files."""
    found = [TESTS / one for one in chosen_for([path]) if one == folder or one.startswith(f"{folder}/")]
    files = (file for one in found for file in ([one] if one.is_file() else one.rglob("test_*.py")))
    return {file.relative_to(TESTS).as_posix() for file in files}


@pytest.mark.parametrize("package, where", [("tramplab", ""), ("tramplab_book", ""), ("tramplab_book/studies", "studies/")])
def test_a_change_picks_all_tests_of_its_room_that_are_not_slow(package, where):
    """And of each room some tests."""
    for room in rooms(f"lib/{package}"):
        path = f"lib/{package}/{room}/some.py"
        every = {file.relative_to(TESTS).as_posix() for file in (TESTS / f"{where}{room}").rglob("test_*.py")}
        if room != "studies":  # each argument has its own
            assert own(path, f"{where}{room}") >= every - {*SLOW}
        assert len(chosen_for([path])) > len(ALWAYS)


@pytest.mark.parametrize(
    ("changed", "wanted", "pages"),
    [
        (["lib/tramplab/guest/arm64/ftrace_caller_args.S"], {"trampolines", "studies/test_golden.py"}, []),
        (["lib/tramplab/races/schemes/schemes.py"], {"races"}, []),
        (["lib/tramplab/ftrace/ops.py", "lib/tests/ftrace/test_releases.py"], {"ftrace"}, []),
        (["lib/tramplab/vmlinux/hooks/graph.py"], {"vmlinux/test_hooks_real.py", "vmlinux/test_saved.py"}, []),
        (["lib/tramplab/cli.py"], {"cli"}, []),
        (["lib/tramplab_book/studies/callops/balance.py"], {"studies/callops", "studies/test_findings.py"}, ["call-ops"]),
        (["lib/tramplab_book/studies/booted/found.py"], {"studies/test_findings.py", "publish/test_claims.py"}, SHOW_FOUND),
        (["lib/tests/support/models/call_trees.py"], {"returns/test_returns_nesting.py"}, []),
        (["lib/tests/support/base/data.py"], {"base/test_damaged_data.py", "estimate/test_cores.py"}, []),
        (["lib/tests/recipes/hook.diff"], {"recipes"}, []),
        (["lib/tests/trampolines/conftest.py"], {"trampolines"}, []),
        (["lib/bench/loops.py"], set(), []),
        (["data/findings/direct.yml"], {"studies/test_findings.py"}, []),
        (["data/releases.yml"], {"ftrace", "studies/test_golden.py"}, []),
        (["book/_ext/book_search.py"], {"book"}, []),
        (["_config.yml", "book/method.md"], {"book"}, ["method"]),
        (["book/index.md", "book/glossary.md"], {"book/test_prose.py"}, ["glossary", "index"]),
        (["README.md", "book/gone.md"], set(), []),
    ],
)
def test_the_tests_of_a_change(changed, wanted, pages):
    found = chosen_for(changed)
    assert wanted <= {*found} and {*ALWAYS} <= {*found} and pages_for(changed) == pages
    assert not any(one.startswith((f"{other}/", f"{other}::")) for one in found for other in found)
    asked = arguments(changed)
    assert not pages or (f"--pages={','.join(pages)}" in asked and {f"tests/{CELLS}", "tests/book"} & {*asked})


def test_a_helper_picks_its_users_also_those_of_another_helper():
    """The accounting of records is a model, driven by what runs the guest."""
    of = {name: {*chosen_for([f"lib/tests/support/models/accounting_{name}.py"])} for name in ("model", "subject")}
    assert of["subject"] == {*ALWAYS, *(f"ftrace/test_{name}.py" for name in ("accounting", "accounting_mistakes", "patch_plans"))}
    assert of["model"] == {*of["subject"], "studies/variants/test_choosing.py"}


def test_it_is_asked_as_make_asks_it():
    command = [sys.executable, "tests/support/checkout/affected.py", "HEAD"]
    done = subprocess.run(command, cwd=ROOT / "lib", capture_output=True, encoding="utf-8")
    assert done.returncode == 0 and done.stdout.split()[0] == "--without-book" and " tests/checkout" in done.stdout, done.stderr
