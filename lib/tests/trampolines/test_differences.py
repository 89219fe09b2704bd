"""Where the guest differs from the kernel's code, its heads say why, or name the fault that it does not have."""

import re

import pytest

from tramplab.build.toolchain import GUEST
from tramplab.ftrace import releases
from tramplab.isa import ISAS

#: A list of differences, up to the full stop behind it; its points have semicolons between them.
_LIST = re.compile(r"[Dd]iffers\b[^:;]*:(.*?)\.(?=\s+[A-Z@]|\s*(?:\*/|$)|\s*\n\s*\n)", re.DOTALL)
_WHY = re.compile(r"\b(because|since)\b(?! v?\d)")
_NAMED = re.compile(r"\((\w+) in data/releases\.yml\)|see (\w+) in data/releases\.yml")
#: Of a trampoline that executes what the kernel's does.
NOTHING = "nothing that runs"


def _plain(text: str) -> str:
    """Comments without the stars of their lines."""
    return re.sub(r"\n \*(?!/) ?", "\n", text)


def points(text: str) -> list[str]:
    """The points of all lists in a source's comments."""
    return [" ".join(point.split()) for found in _LIST.findall(_plain(text)) for point in found.split(";")]


def unexplained(text: str) -> list[str]:
    """The points that neither say why nor name a fault of data/releases.yml."""
    uses = {use for isa in ISAS for use in releases.broken_uses(isa)}

    def explained(point: str) -> bool:
        named = {name for pair in _NAMED.findall(point) for name in pair if name}
        return named <= uses and bool(named or _WHY.search(point) or point == NOTHING)

    return [point for point in points(text) if not explained(point)]


SOURCES = [path for path in sorted(GUEST.rglob("*.[chS]")) if re.search("differs", path.read_text("utf-8"), re.IGNORECASE)]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(GUEST).as_posix())
def test_each_difference_has_a_reason_or_a_fault(source):
    text = source.read_text("utf-8")
    assert len(_LIST.findall(_plain(text))) == len(re.findall(r"\b[Dd]iffers\b[^:;]*:", _plain(text)))
    assert unexplained(text) == []


@pytest.mark.parametrize(
    "head, found",
    [
        ("/*\n * Differs: no page faults, because there are none; gp stays.\n */", ["gp stays"]),
        (
            "/*\n * Differs: what is left over is zeroed whole. Whether\n * RCU watches is asked.\n */",
            ["what is left over is zeroed whole"],
        ),
        ("/*\n * differs: s0 is\n *   saved since v6.8.\n *\n * Entered.\n */", ["s0 is saved since v6.8"]),
        (
            "/*\n * Differs: the list is ended (fprobe_list_unended in data/releases.yml).\n */",
            ["the list is ended (fprobe_list_unended in data/releases.yml)"],
        ),
        ("/*\n * Differs: the list is ended (fprobe_list_not_ended in data/releases.yml).\n */", []),
        ("/*\n * differs: nothing that runs.\n */", []),
    ],
)
def test_one_without_either_is_found(head, found):
    assert unexplained(head) == found


def test_faults_that_the_guest_does_not_have_are_named_in_it():
    """Of what its C and its trampolines do; the others are of what attaches and of compilers."""
    text = "".join(source.read_text("utf-8") for source in SOURCES)
    named = {name for pair in _NAMED.findall(" ".join(_plain(text).split())) for name in pair if name}
    assert named == {"fprobe_list_not_ended", "fprobe_without_rcu", "kprobe_event_race", "regs_sp_of_trampoline", "clang_arguments"}
