"""What a compiler may read for a source, held against what its preprocessor says it has read."""

import re

import pytest

from support.models.guests import ISAS, config
from tramplab import isa as isas
from tramplab.build.included import Included
from tramplab.build.toolchain import GUEST, run_tool


def sources(isa):
    return [GUEST / "functions.c", *GUEST.glob("co*/*.c"), *(GUEST / isa).glob("*.S")]


@pytest.mark.parametrize("isa", ISAS)
def test_all_that_is_read_is_found(isa, tmp_path):
    record, folders = isas.get(isa), (GUEST / "include", GUEST / isa, tmp_path)
    (tmp_path / "asm-offsets.h").touch()
    included = Included(folders)
    options = [f"--target={record.triple}", *(f"-I{folder}" for folder in folders)]
    options += [f"-D{name}" for name in config(isa).defines]
    files = [str(source) for source in sources(isa)]
    said = run_tool("clang", "-M", *options, *record.cflags, *files).replace("\\\n", " ")
    rules = {words[1]: {word for word in words[1:] if "ziglang" not in word} for words in map(str.split, said.splitlines())}
    assert sorted(rules) == sorted(files)
    for source in sources(isa):
        assert rules[str(source)] <= {str(path) for path in included.of(source)}, source


def test_a_file_is_found_as_the_compiler_finds_it(tmp_path):
    """Behind a condition, beside what includes it, through others, in a circle; and what is made later, later."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    texts = {
        "a/one.c": '#if 0\n  #  include "two.h"\n#endif\n#include <three.h>\n// #include "four.h"\n',
        "a/two.h": '#include "five.h"\nint CONFIG_TWO;\n',
        "b/three.h": '#include "made.h"\n#ifdef CONFIG_THREE\n#endif\n',
        "a/five.h": '#include "two.h"\n/* CONFIG_FIVE_AND_MORE */\n',
        "b/four.h": "CONFIG_FOUR\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    included, one = Included([tmp_path / "b"]), tmp_path / "a" / "one.c"
    names = [str(path.relative_to(tmp_path)) for path in included.of(one)]
    assert names[0] == "a/one.c" and sorted(names) == ["a/five.h", "a/one.c", "a/two.h", "b/three.h"]
    asked = ["CONFIG_THREE", "CONFIG_TWO", "CONFIG_FOUR", "CONFIG_FIVE", "CONFIG_MADE"]
    assert included.mentioned(one, asked) == ["CONFIG_THREE", "CONFIG_TWO"]
    (tmp_path / "b" / "made.h").write_text("CONFIG_MADE", "utf-8")
    assert included.mentioned(one, asked) == ["CONFIG_THREE", "CONFIG_TWO", "CONFIG_MADE"]


def test_no_text_of_the_guest_makes_the_name_of_a_macro():
    """Nor does one include what a macro names: either would be read without being seen."""
    hidden = re.compile(r"CONFIG_\w*\s*##|##\s*CONFIG_|^\s*#\s*include\s+[^\"<\s]", re.MULTILINE)
    files = [p for p in GUEST.rglob("*") if p.suffix in (".c", ".h", ".S", ".inc")]
    assert len(files) > 50 and [p.name for p in files if hidden.search(p.read_text("utf-8"))] == []
    assert all(hidden.search(text) for text in ("CONFIG_ ## x", "a##CONFIG_B", "\n# include NAME\n"))
