"""The set-up and the rules of the checkout: imports, requirements, make targets, and builds that must fail."""

import ast
import contextlib
import functools
import graphlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import again
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tramplab import cache
from tramplab.capacity import processors
from tramplab.publish.cite import pages

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "lib" / "tramplab"

# -- imports: what each part may import, besides itself and what everything rests on

BASE = {"errors", "paths", "cache", "jobs", "capacity", "revision"}
BELOW = {
    **{part: set() for part in BASE},
    "isa": set(),
    "build": {"isa"},
    "emulate": {"isa", "build"},
    "ftrace": {"isa", "build", "emulate"},
    "trampolines": {"isa", "build", "emulate", "ftrace"},
    "lab": {"isa", "build", "emulate", "ftrace", "trampolines"},
    "analyse": {"isa", "build", "emulate", "ftrace", "trampolines", "lab"},
    "native": {"isa", "build", "emulate", "ftrace", "trampolines", "lab", "analyse"},
    "grid": {"isa", "build", "emulate", "ftrace", "trampolines", "lab", "analyse"},
    "publish": set(),
    "studies": {"isa", "build", "emulate", "ftrace", "trampolines", "lab", "analyse", "native", "publish"},
}
EVERYTHING = set(BELOW) | {"__init__", "cli"}
BELOW |= {"cli": EVERYTHING, "__main__": EVERYTHING, "__init__": EVERYTHING - {"cli"}}

# One module each; charts are made in one package.
ENGINES = {
    "concurrent": "jobs.py",
    "multiprocessing": "jobs.py",
    "tqdm": "grid/progress.py",
    "myst_parser": "publish/cite/pages.py",
    "unicorn": "emulate/engine.py",
    "capstone": "emulate/decode.py",
    "keystone": "build/assemble.py",
    "altair": "publish/figures/chart",
}


def imports(source: str, package: tuple[str, ...]) -> set[str]:
    """Dotted names a module imports, anywhere in it. `package` is what its relative imports are relative to."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            base += node.module.split(".") if node.module else []
            names |= {".".join([*base, alias.name]) for alias in node.names}
    return names


def forbidden(names: set[str], part: str) -> set[str]:
    """Those of the names that lie above `part`, or beside it."""
    parts = {name: [*name.split("."), "__init__"][1] for name in names if name.split(".")[0] == "tramplab"}
    known = {name: target if target in EVERYTHING else "__init__" for name, target in parts.items()}
    return {name for name, target in known.items() if target not in BELOW[part] | BASE | {part}}


@functools.cache
def modules() -> list[tuple[Path, str, set[str]]]:
    """Every module of the package: where in it, of which part, and what it imports."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE)
        names = imports(path.read_text("utf-8"), ("tramplab", *inside.parts[:-1]))
        found.append((inside, inside.parts[0].removesuffix(".py"), names))
    return found


def test_imports_point_downwards():
    assert {str(path): bad for path, part, names in modules() if (bad := forbidden(names, part))} == {}


def graph(found: list[tuple[Path, str, set[str]]]) -> dict[str, set[str]]:
    """Module -> the modules of the package that it imports, also for type checkers only."""

    def dotted(path: Path) -> str:
        return ".".join(("tramplab", *path.with_suffix("").parts)).removesuffix(".__init__")

    known = {dotted(path) for path, _, _ in found}
    return {
        dotted(path): {n if n in known else n.rpartition(".")[0] for n in names if n.split(".")[0] == "tramplab"}
        for path, _, names in found
    }


def circle(imported: dict[str, set[str]]) -> list[str]:
    """Modules that import each other all around; none where there is no such circle."""
    try:
        list(graphlib.TopologicalSorter(imported).static_order())
    except graphlib.CycleError as e:
        return e.args[1]
    return []


def test_no_modules_import_each_other():
    assert circle(graph(modules())) == []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) != []


def test_each_engine_is_imported_in_one_place():
    found = {
        engine: [path for path, _, names in modules() if engine in {n.split(".")[0] for n in names}]
        for engine in ENGINES
    }
    assert all(found.values())
    assert [str(p) for engine in ENGINES for p in found[engine] if not p.is_relative_to(ENGINES[engine])] == []


@pytest.mark.parametrize(
    "source, part",
    [
        ("from tramplab.lab.kernel import Kernel", "publish"),
        ("def f():\n    import tramplab.studies", "ftrace"),
        ("from ..publish import table", "emulate"),
        ("from .. import cli", "studies"),
        ("from tramplab import Kernel", "publish"),
    ],
)
def test_an_import_that_points_upwards_is_seen(source, part):
    assert forbidden(imports(source, ("tramplab", part)), part)


def test_an_import_that_points_downwards_is_allowed():
    source = "import os\nfrom tramplab.errors import TramplabError\nfrom ..isa import x\nfrom . import y"
    assert not forbidden(imports(source, ("tramplab", "emulate")), "emulate")


# -- tests


def test_what_a_second_run_leaves_out_is_there():
    sources = {path.stem: path.read_text("utf-8") for path in (ROOT / "lib" / "tests").glob("test_*.py")}
    assert sources.keys() >= again.FILES
    assert all(any(f"def {name}(" in text for text in sources.values()) for name in again.DETERMINISM)


# -- requirements


def wanted() -> dict[str, tuple[Requirement, str]]:
    """Name to requirement and reason, from requirements.in."""
    text = (ROOT / "requirements.in").read_text("utf-8")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    pairs = [(Requirement(spec), reason.strip()) for spec, _, reason in (line.partition("#") for line in lines)]
    return {canonicalize_name(requirement.name): (requirement, reason) for requirement, reason in pairs}


def locked() -> dict[str, Requirement]:
    lines = [line for line in (ROOT / "requirements.txt").read_text("utf-8").splitlines() if not line.startswith("#")]
    bad = [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+( ; [\w.]+ [=!<]+ \"[\w.]+\"( and .*)?)?", line)]
    assert bad == [], "the lock has only lines of the form name==version, with a marker where needed"
    return {canonicalize_name(Requirement(line).name): Requirement(line) for line in lines}


def test_every_requirement_has_a_reason():
    assert {name for name, (_, reason) in wanted().items() if len(reason) < 10} == set()
    assert {n for n, (r, reason) in wanted().items() if "==" in str(r.specifier) and "pinned" not in reason} <= {
        "keystone-engine"
    }


def test_the_lock_covers_the_requirements_with_the_same_markers():
    lock = locked()
    for name, (requirement, _) in wanted().items():
        (pin,) = lock[name].specifier
        assert requirement.specifier.contains(pin.version), name
        assert str(requirement.marker) == str(lock[name].marker), name


def installed() -> dict[str, Requirement]:
    """What the lock installs on this Python."""
    return {name: r for name, r in locked().items() if not r.marker or r.marker.evaluate()}


def test_the_lock_is_complete():
    """Whatever a locked package needs on this Python is locked, in a version that will do."""
    lock = installed()
    missing = []
    for name in lock:
        for line in importlib.metadata.requires(name) or []:
            need = Requirement(line)
            if need.marker and not need.marker.evaluate({"extra": ""}):
                continue
            pins = (
                [pin.version for pin in lock[canonicalize_name(need.name)].specifier]
                if canonicalize_name(need.name) in lock
                else []
            )
            if not pins or not need.specifier.contains(pins[0]):
                missing.append(f"{name} needs {line}")
    assert missing == []


def test_every_locked_package_runs_on_the_oldest_python():
    """The lock may be made with a later 3.11 than a distribution has."""
    needs = {name: importlib.metadata.metadata(name).get("Requires-Python") for name in installed()}
    assert {name: need for name, need in needs.items() if need and "3.11.0" not in SpecifierSet(need)} == {}


def test_the_package_asks_only_for_what_is_locked():
    needs = {canonicalize_name(Requirement(line).name) for line in importlib.metadata.requires("tramplab")}
    assert needs <= set(wanted())


# -- make


def test_every_target_is_in_make_help():
    targets = re.search(r"^\.PHONY:(.*)$", (ROOT / "Makefile").read_text("utf-8"), re.M)[1].split()
    help_text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True).stdout
    documented = re.findall(r"^make (\w+)\s+\S", help_text, re.M)
    assert set(targets) - set(documented) == {"browser", "qemu"}  # steps of `make test`


# -- documentation


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "data/README.md"])
def test_files_that_are_named_exist(name):
    """Every path in backticks, from the root, the package, its tests or the file's own folder; * stands for anything."""
    text = (ROOT / name).read_text("utf-8")
    spans = [part.content for token in pages.tokens(text) for part in token.children or () if part.type == "code_inline"]
    spans = [n for n in spans if re.fullmatch(r"[\w./*-]+", n)]
    named = [n for n in spans if re.search(r"/[\w*]|\w\.(py|md|yml|csv|txt|S|cff)$", n)]
    folders = (ROOT, PACKAGE, ROOT / "lib" / "tests", (ROOT / name).parent)
    made = r"_build/|/e/|book/<|.*index\.html|\.ci/|NAME"
    absent = [n for n in named if not re.match(made, n) and not any(list(f.glob(n.strip("/"))) for f in folders)]
    assert len(named) > 4 and absent == []


def test_the_examples_to_imitate_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for example, file in (("arm64-call-ops", "data/releases.yml"), ("s5", "data/claims.yml")):
        assert f"`{example}` in `{file}`" in text and re.search(rf"\b{example}\b", (ROOT / file).read_text("utf-8"))


# -- builds of a small book with the settings of this one

FRONT_MATTER = "---\nfile_format: mystnb\nkernelspec: {name: python3, display_name: Python 3}\n---\n"
GOOD_CELL = "```{code-cell}\nfrom myst_nb import glue\nglue('answer', 42, display=False)\n```\n"


def small_book(folder: Path, body: str) -> tuple[list[str], dict[str, str]]:
    """A book of one page in `folder`; returns the command that builds it as `make book` does, and its environment."""
    for name in ("Makefile", "_config.yml", "requirements.txt"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("_ext", "_static"):
        shutil.copytree(ROOT / "book" / name, folder / "book" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "book" / "references.bib", folder / "book" / "references.bib")
    (folder / "lib").mkdir()
    shutil.copy(ROOT / "lib" / "pyproject.toml", folder / "lib" / "pyproject.toml")
    (folder / "_toc.yml").write_text(yaml.safe_dump({"format": "jb-book", "root": "book/index"}), "utf-8")
    (folder / "book" / "index.md").write_text(FRONT_MATTER + "# Small\n\n" + body, "utf-8")
    # A user whose own kernel of the same name and IPython start-up file must not matter.
    home = folder / "home"
    kernel = home / ".local" / "share" / "jupyter" / "kernels" / "python3" / "kernel.json"
    start = home / ".ipython" / "profile_default" / "startup" / "00.py"
    for path in (kernel, start):
        path.parent.mkdir(parents=True)
    spec = {"argv": ["/bin/false", "{connection_file}"], "display_name": "x", "language": "python"}
    kernel.write_text(json.dumps(spec), "utf-8")
    start.write_text("import sys; print('start-up file', file=sys.stderr)", "utf-8")
    installed = f"{sys.prefix}/installed"  # -o: the environment this test runs in is taken as it is
    command = ["make", "book", f"VENV={sys.prefix}", "-o", installed]
    # ... and what the other tests have built need not be built again; no page of such a book shows times
    own = {"TRAMPLAB_CACHE": str(cache.folder()), "TRAMPLAB_TIMES": "off"}
    return command, {**os.environ, **own, "HOME": str(home), "MAKEFLAGS": "", "MAKELEVEL": "0", "NO_COLOR": "1"}


def build(folder: Path, body: str) -> tuple[bool, str]:
    """Whether the small book was built, and what the build said."""
    command, environment = small_book(folder, body)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    built = (folder / "_build" / "html" / "index.html").exists()
    assert built == (done.returncode == 0), "a failed build left pages, or a good one left none"
    return built, done.stdout + done.stderr


PREFIX = "```{code-cell}\nimport sys\nprint('prefix', sys.prefix)\n```\n"
TRANSPORT = (
    "```{code-cell}\nfrom ipykernel.connect import get_connection_info\n"
    "print(get_connection_info(unpack=True)['transport'], 'sockets')\n```\n"
)
SLOW = "```{code-cell}\nimport time\nfor n in range(6):\n    print(n, end=' ')\n    time.sleep(0.1)\n```\n"
#: A cell that ends when that of another page has begun.
MEET = (
    "```{{code-cell}}\nimport pathlib, time\npathlib.Path('{own}').touch()\nend = time.monotonic() + 120\n"
    "while not pathlib.Path('{other}').exists():\n    assert time.monotonic() < end\n    time.sleep(0.05)\n```\n"
)


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> tuple[Path, str]:
    """The folder of a good book of several pages, and what its build said."""
    folder = tmp_path_factory.mktemp("good")
    command, environment = small_book(folder, GOOD_CELL + "The answer is {glue:}`answer`.\n\n" + PREFIX + TRANSPORT)
    pages = dict.fromkeys("abcdef", "Text.\n") | {"c": SLOW}  # Sphinx reads five documents one by one, and six at once
    if processors() > 1:
        pages |= {"a": MEET.format(own="A", other="B"), "b": MEET.format(own="B", other="A")}
    for name, body in pages.items():
        (folder / "book" / f"{name}.md").write_text(FRONT_MATTER + f"# Page {name}\n\n" + body, "utf-8")
    toc = {"format": "jb-book", "root": "book/index", "chapters": [{"file": f"book/{name}"} for name in pages]}
    (folder / "_toc.yml").write_text(yaml.safe_dump(toc), "utf-8")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_a_good_page_builds_with_this_python(good):
    folder, said = good
    page = (folder / "_build" / "html" / "book" / "index.html").read_text("utf-8")
    assert ">42<" in page and f"prefix {sys.prefix}" in page
    assert "ipc sockets" in page  # two kernels at once could choose the same TCP port
    assert re.search(r"== done: \S+/_build/html/index.html", said)
    assert not (folder / "_build" / "html" / "_static" / "vega-bundle.js").exists()  # no chart, no bundle


def test_what_a_slow_cell_prints_is_one_output(good):
    """The kernel sends what there is every 0.2 seconds; kept in such pieces, two builds would differ."""
    notebook = json.loads((good[0] / "_build" / "html" / "book" / "c.ipynb").read_text("utf-8"))
    (output,) = (output for cell in notebook["cells"] for output in cell.get("outputs", []))
    assert "".join(output["text"]).split() == list("012345")


@pytest.mark.skipif(processors() == 1, reason="one processor executes one page at a time")
def test_pages_are_executed_side_by_side(good):
    """Two pages that wait for one another both end, and every page is there."""
    folder, said = good
    assert "'A'" in (folder / "book" / "a.md").read_text("utf-8") and (folder / "book" / "A").exists()
    built = {path.stem for path in (folder / "_build" / "html" / "book").glob("*.html")}
    assert built == {"index", *"abcdef"}
    written = re.findall(r"writing output\.\.\. .*%", said)
    assert len(written) == len(built), "written by one process; of several, the first page has no line"


def test_a_cell_that_raises_fails_the_build(tmp_path):
    built, said = build(tmp_path, "```{code-cell}\n1 / 0\n```\n")
    assert not built and "ZeroDivisionError" in said


#: What stands in a page -> what the build says of it.
MISTAKES = {
    GOOD_CELL + "{glue:}`question`\n": "No key 'question' found",
    "```{code-cell}\nimport sys\nprint('careful', file=sys.stderr)\n```\n": "stderr was found in the cell outputs",
    "{numref}`fig-nowhere`\n": "undefined label: 'fig-nowhere'",
    "{doc}`nowhere`\n": "unknown document: 'nowhere'",
    '<i class="fa-solid fa-nonsense"></i>\n': "no outline for the icon fa-solid fa-nonsense",
    f"```text\n{'8' * 73}\n```\n": f"of book/index.txt has 73 columns, the limit is 72: {'8' * 73}",
}


def test_every_mistake_is_a_warning_of_its_own_and_fails_the_build(tmp_path):
    built, said = build(tmp_path, "\n".join(MISTAKES))
    warnings = [line for line in said.splitlines() if re.search("WARNING|ERROR", line)]
    assert not built
    assert [said for said in MISTAKES.values() if not any(said in line for line in warnings)] == [], warnings


def test_an_interrupted_build_leaves_no_pages(tmp_path):
    command, environment = small_book(
        tmp_path, "```{code-cell}\nopen('started', 'w').close()\nimport time; time.sleep(600)\n```\n"
    )
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 300  # a build starts late on a busy machine
        while not (tmp_path / "book" / "started").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert (tmp_path / "book" / "started").exists(), (tmp_path / "log").read_text("utf-8")
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(120) != 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not (tmp_path / "_build" / "html").exists()
