"""Building a kernel: what is run, kept and said. Only with CI_BUILD=1 is one really built."""

import os
import sys

import pytest

from support.complaints import complaint
from tramplab.kbuild import build, fragments, source

#: In tuxmake's place: makes a configuration of what it is told, and two files; fails where the source has a file "broken".
FAKE = """
import pathlib, shutil, sys
words = sys.argv[1:]
given = {word: after for word, after in zip(words, words[1:])}
tree, build = pathlib.Path(given["-C"]), pathlib.Path(given["-b"])
(tree.parent.parent / "runs").open("a").write(" ".join(words) + "\\n")
if words[-1] == "config":
    shutil.copy(given["-K"], build / ".config")
    sys.exit()
for n in range(3):
    print(f"  CC      kernel/{n}.o", flush=True)
print("  LD [M]  kernel/x.ko\\nsome warning: of no error")
if (tree / "broken").exists():
    print("../kernel/x.c:7:1: error: unknown type name 'x'\\n../kernel/x.c:9:1: error: another\\nmake: *** [x.o] Error 1")
    sys.exit(2)
(build / "vmlinux").write_text("vmlinux", "utf-8")
(build / "arch/arm64/boot").mkdir(parents=True, exist_ok=True)
(build / "arch/arm64/boot/Image").write_text("image", "utf-8")
"""


@pytest.fixture
def faked(tmp_path, monkeypatch):
    """A source, and tuxmake replaced; the words of each run of it."""
    (tmp_path / "fake.py").write_text(FAKE, "utf-8")
    monkeypatch.setattr(build, "_TUXMAKE", (sys.executable, str(tmp_path / "fake.py")))
    monkeypatch.setattr(build, "_compiler", lambda wanted: f"a compiler {wanted.clang}")
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    top = tmp_path / "linux"
    top.mkdir()
    (top / "Kconfig").write_text("config A\n", "utf-8")
    (top / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 3\n", "utf-8")
    return top


def runs(top):
    return (top.parent / "runs").read_text("utf-8").splitlines()


def made(top, *patches, clang="", **options):
    wanted = build.Wanted("arm64", {**fragments.options("arm64"), **options}, clang)
    return next(build.kernels(top, [patches], [wanted]))[0]


def test_a_kernel_is_built_once_and_kept(faked):
    kernel = made(faked)
    assert kernel.image.read_text("utf-8") == "image" and kernel.release == "6.12.3" and kernel.compiler == "a compiler "
    assert made(faked) == kernel and list(build.every()) == [kernel]
    config, files = runs(faked)
    assert config.endswith(" config") and files.endswith(" kernel debugkernel")
    assert "KBUILD_BUILD_TIMESTAMP=2026-01-01" in files and "-a arm64 -k tinyconfig" in files and "LLVM" not in files
    assert [p.name for p in faked.parent.iterdir() if p.name.startswith("tramplab-")] == []


def test_another_patch_option_compiler_or_source_is_another_kernel(faked):
    patch = faked.parent / "x.patch"
    patch.write_text("--- a/Makefile\n+++ b/Makefile\n@@ -3 +3 @@\n-SUBLEVEL = 3\n+SUBLEVEL = 4\n", "utf-8")
    kernels = [made(faked), made(faked, patch), made(faked, NEW="y"), made(faked, clang="19")]
    (faked / "Kconfig").write_text("config B\n", "utf-8")
    kernels.append(made(faked))
    assert len({kernel.key for kernel in kernels}) == 5 and len(runs(faked)) == 10
    assert [kernel.release for kernel in kernels] == ["6.12.3", "6.12.4", *["6.12.3"] * 3]
    assert kernels[1].patches == ("x.patch",) and "LLVM=-19" in runs(faked)[7]


def test_the_kernels_of_a_series_are_made_in_one_tree_that_is_as_it_was_behind_each(faked):
    patch = faked.parent / "x.patch"
    patch.write_text("--- a/Makefile\n+++ b/Makefile\n@@ -3 +3 @@\n-SUBLEVEL = 3\n+SUBLEVEL = 4\n", "utf-8")
    (kernels,) = build.kernels(faked, [[], [patch], []], [build.Wanted("arm64", fragments.options("arm64"))])
    assert [kernel.release for kernel in kernels] == ["6.12.3", "6.12.4", "6.12.3"] and kernels[0] == kernels[2]
    assert len(runs(faked)) == 4 and len({line.split()[1] for line in runs(faked)}) == 1


def test_a_kernel_that_lost_a_file_is_built_again(faked):
    made(faked).vmlinux.unlink()
    assert list(build.every()) == []
    assert made(faked).vmlinux.is_file() and len(runs(faked)) == 4


def test_each_step_is_told(faked):
    told = []
    wanted = build.Wanted("arm64", fragments.options("arm64"))
    list(build.kernels(faked, [[]], [wanted], lambda one, done, steps, seconds: told.append((one.isa, done))))
    assert told == [("arm64", n) for n in (1, 2, 3, 4)]


def test_the_first_error_is_said_and_nothing_is_kept(faked):
    (faked / "broken").write_text("", "utf-8")
    said = complaint(lambda: made(faked))
    assert said == "the kernel for arm64 is not built: ../kernel/x.c:7:1: error: unknown type name 'x'."
    assert list(build.every()) == []


@pytest.mark.parametrize(
    "isa, clang, packages",
    [("arm64", "", "gcc-aarch64-linux-gnu"), ("riscv64", "19", "clang-19 lld-19 llvm-19"), ("x86_64", "", "gcc-x86-64-linux-gnu")],
)
def test_what_is_missing_is_named_with_its_packages(isa, clang, packages, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    said = complaint(lambda: next(build.kernels(tmp_path, [[]], [build.Wanted(isa, {}, clang)])))
    assert f"apt-get install {packages} make flex bison bc pahole perl tar git xz-utils." in said


@pytest.mark.skipif(not os.environ.get("CI_BUILD"), reason="CI_BUILD=1 builds kernels: minutes each")
@pytest.mark.parametrize("isa", build.ARCHES)
def test_the_same_kernel_has_the_same_bytes_wherever_and_behind_whatever_it_is_built(isa, tmp_path, monkeypatch):
    path, files = source.found("linux-source-6.12"), []
    (patch := tmp_path / "x.patch").write_text("--- /dev/null\n+++ b/kernel/trace/x.h\n@@ -0,0 +1 @@\n+int x;\n", "utf-8")
    for name, series in (("one", [[]]), ("another-longer-one", [[patch], []])):
        (folder := tmp_path / name).mkdir()
        monkeypatch.setenv("TRAMPLAB_CACHE", str(folder / "cache"))
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        (kernels,) = build.kernels(path, series, [build.Wanted(isa, fragments.options(isa))])
        files.append((kernels[-1].image.read_bytes(), kernels[-1].vmlinux.read_bytes()))
    assert files[0] == files[1]
