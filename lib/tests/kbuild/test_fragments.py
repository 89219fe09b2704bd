"""Configurations: what fragments say, and what a kernel takes of it."""

import pytest

from support.complaints import complaint
from tramplab.kbuild import build, fragments


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("isa", build.ARCHES)
def test_later_fragments_are_over_earlier_ones_and_base_is_under_all(isa, tmp_path):
    own = written(tmp_path / "own.config", "# with a comment\nCONFIG_KPROBES=n\n\n# CONFIG_NET is not set\nCONFIG_HZ=100\n")
    base, made = fragments.options(isa), fragments.options(isa, ["preempt", str(own)])
    assert (base["KPROBES"], base["NET"]) == ("y", "y") and "SERIAL" in " ".join(base)
    assert [made[name] for name in ("KPROBES", "NET", "HZ", "PREEMPT")] == ["n", "n", "100", "y"]
    assert fragments.read(written(tmp_path / "again.config", fragments.text(made))) == made


def test_the_names_are_those_of_the_files():
    assert {"base", "preempt", "cfi", "frame-pointers"} <= set(fragments.names())
    assert all(fragments.options("arm64", [name]) for name in fragments.names())


def test_a_fragment_that_is_none_is_refused(tmp_path):
    assert "did you mean preempt" in complaint(lambda: fragments.options("arm64", ["premept"]))
    bad = written(tmp_path / "bad.config", "CONFIG_NET=y\nNET=y\n")
    assert complaint(lambda: fragments.options("arm64", [str(bad)])).startswith(f"{bad}, line 2: 'NET=y' is no option")


def test_an_option_that_is_not_taken_is_refused_unless_it_is_of_base_or_of_another_release(tmp_path):
    written(tmp_path / "tree" / "arch" / "Kconfig.x", "menuconfig OURS\n\tbool\nconfig KPROBES\n\tbool\n")
    config = written(tmp_path / ".config", "CONFIG_NET=y\n# CONFIG_OURS is not set\n")

    def missed(**wanted):
        return fragments.missed(config, tmp_path / "tree", wanted)

    assert missed(NET="y", KPROBES="y", LATER="y", OURS="n", NEVER="n") == ("KPROBES", "LATER")
    assert "CONFIG_OURS=y does not hold" in complaint(lambda: missed(OURS="y"))
