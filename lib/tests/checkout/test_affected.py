"""What `make check` runs: tests that exist, of every room, and never a book or a browser."""

import subprocess
import sys

import pytest

from support import ROOT
from support.checkout.affected import AFFECTED, ALWAYS, TESTS, chosen_for

ROOMS = sorted(path.name for path in (ROOT / "lib" / "tramplab").iterdir() if path.is_dir() and path.name != "__pycache__")


def test_what_is_named_exists():
    for found in (ALWAYS, *AFFECTED.values()):
        assert [one for one in found if not (TESTS / one).exists()] == []
    assert [start for start in AFFECTED if not (ROOT / start).is_dir()] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_change_in_a_room_has_tests(room):
    assert len(chosen_for([f"lib/tramplab/{room}/some.py"])) > len(ALWAYS)


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        (["lib/tramplab/guest/arm64/ftrace_caller_args.S"], {"trampolines/test_abi.py", "studies/test_golden.py"}),
        (["lib/tramplab_book/studies/returns/features.py", "book/index.md"], {"studies/test_findings.py", "book/test_prose.py"}),
        (["lib/tramplab/races/schemes/schemes.py"], {"races"}),
        (["lib/tramplab/ftrace/ops.py", "lib/tests/ftrace/test_releases.py"], {"ftrace"}),
        (["README.md"], set()),
    ],
)
def test_the_tests_of_a_change(changed, wanted):
    found = chosen_for(changed)
    assert wanted <= set(found) and set(ALWAYS) <= set(found)
    assert not any(one.startswith("book/") and one != "book/test_prose.py" for one in found)
    assert len(found) == len(set(found)) and not {one for one in found if "/" in one and one.partition("/")[0] in found}


def test_it_is_asked_as_make_asks_it():
    command = [sys.executable, "tests/support/checkout/affected.py", "HEAD"]
    done = subprocess.run(command, cwd=ROOT / "lib", capture_output=True, encoding="utf-8")
    assert done.returncode == 0 and done.stdout.split()[0] == "tests/checkout", done.stderr
