"""The source of a kernel, copied and patched."""

import subprocess

import pytest

from support.complaints import complaint
from tramplab.kbuild import source

DIFF = "--- a/kernel/x.c\n+++ b/kernel/x.c\n@@ -1 +1 @@\n-int x;\n+long x;\n"
HEADER = "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\nSubject: [PATCH] x\n\nWhy.\n---\n"


@pytest.fixture
def tree(tmp_path):
    top = tmp_path / "linux"
    (top / "kernel").mkdir(parents=True)
    (top / "Kconfig").write_text("config A\n", "utf-8")
    (top / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 3\nEXTRAVERSION =\n", "utf-8")
    (top / "kernel" / "x.c").write_text("int x;\n", "utf-8")
    (top / ".git").mkdir()
    return top


def written(path, text):
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("text", [DIFF, HEADER + DIFF + "-- \n2.39\n\n"], ids=["diff", "mailbox"])
def test_a_copy_is_patched_and_the_tree_is_not(tree, tmp_path, text):
    patch = written(tmp_path / "x.patch", text)
    with source.copied(tree) as copy:
        with source.patched(copy, [patch]):
            assert (copy / "kernel" / "x.c").read_text("utf-8") == "long x;\n" and not (copy / ".git").exists()
        assert source.release(copy) == "6.12.3" and (copy / "kernel" / "x.c").read_text("utf-8") == "int x;\n"
    assert (tree / "kernel" / "x.c").read_text("utf-8") == "int x;\n" and not copy.exists()


def test_an_archive_is_as_its_tree(tree, tmp_path):
    subprocess.run(["tar", "-cJf", str(tmp_path / "linux.tar.xz"), "-C", str(tmp_path), "linux"], check=True)
    with source.copied(tmp_path / "linux.tar.xz") as copy:
        assert source.release(copy) == "6.12.3" and (copy / "kernel" / "x.c").is_file()


def test_a_digest_is_of_names_and_content_but_not_of_git_s(tree):
    first = source.digest(tree)
    (tree / ".git" / "HEAD").write_text("x", "utf-8")
    assert source.digest(tree) == first
    (tree / "kernel" / "x.c").rename(tree / "kernel" / "y.c")
    second = source.digest(tree)
    (tree / "kernel" / "y.c").write_text("int y;\n", "utf-8")
    assert len({first, second, source.digest(tree)}) == 3


def test_a_patch_that_does_not_apply_names_file_and_hunk(tree, tmp_path):
    patch = written(tmp_path / "x.patch", DIFF.replace("-int x;", "-int z;"))
    said = complaint(lambda: source.patched(tree, [patch]).__enter__())
    assert said == f"{patch} does not apply: kernel/x.c, the hunk at line 1; nothing is built."


@pytest.mark.parametrize(
    "text, said",
    [("no diff\n", "No valid patches in input"), (DIFF.replace("kernel/x.c", "kernel/z.c"), "kernel/z.c: No such file")],
    ids=["none", "other"],
)
def test_what_else_is_wrong_with_a_patch_is_git_s_own_word(tree, tmp_path, text, said):
    patch = written(tmp_path / "x.patch", text)
    assert said in complaint(lambda: source.patched(tree, [patch]).__enter__())


def test_a_patch_that_is_not_there_is_refused_before_anything_is_built(tree, tramplab):
    for command in ("build {} --patch no.patch", "patch {} no.patch"):
        status, out, err = tramplab(*command.format(tree).split())
        assert (status, out) == (2, "") and err.startswith("tramplab: there is no patch no.patch: give a file with a diff")


def test_what_is_no_source_is_refused(tree, tmp_path):
    said = complaint(lambda: source.found("linux-source-9.9"))
    assert "install Debian's package linux-source-9.9" in said
    assert "no Kconfig" in complaint(lambda: source.digest(tmp_path))
    subprocess.run(["tar", "-cf", str(tmp_path / "x.tar"), "-C", str(tree), "kernel"], check=True)
    assert "no archive of a kernel's source" in complaint(lambda: source.copied(tmp_path / "x.tar").__enter__())
    written(tmp_path / "x.tar", "no archive")
    assert "is not unpacked: tar: " in complaint(lambda: source.copied(tmp_path / "x.tar").__enter__())
    (tree / ".config").write_text("", "utf-8")
    assert "configured in place" in complaint(lambda: source.digest(tree))
