"""Data files against their schemas: the files that there are, and a sentence for each kind of mistake."""

import copy

import fastjsonschema
import pytest
import yaml

from support import ROOT, data
from tramplab import TramplabError
from tramplab.base import documents
from tramplab.base.schema import SCHEMAS, checked

DATA = ROOT / "data"
#: Schema -> the files that are held against it.
FILES = {
    "kernel": sorted(f"kernels/{path.name}" for path in (DATA / "kernels").glob("*.json")),
    "kernel-races": ["kernel-races.json"],
    "bpf-trampolines": ["bpf-trampolines.json"],
    "kernel-frames": ["kernel-frames.json"],
    "kernel-probes": ["kernel-probes.json"],
    "kernels": ["kernels/packages.yml"],
    "native": sorted(f"native/{path.name}" for path in (DATA / "native").glob("*.json")),
}
#: Those of what users keep; tests of what reads it hold them.
OTHERS = ["explored"]


def content(name: str):
    """What a data file says."""
    return documents.parsed(name, (DATA / name).read_text("utf-8"), name.rpartition(".")[2].replace("cff", "yml"))


def test_every_file_has_a_schema():
    assert {path.stem for path in SCHEMAS.iterdir()} == {*FILES, *OTHERS}
    others = {path.name for path in DATA.rglob("*") if path.is_file() and path.parent.name != "expected"}
    assert others - {name.rpartition("/")[2] for name in data.FILES} == {"README.md", "permalinks.txt"}


@pytest.mark.parametrize(("schema", "name"), [(schema, name) for schema, names in FILES.items() for name in names])
def test_files_are_as_their_schemas_say(schema, name):
    assert checked(name, content(name), schema) == content(name)


@pytest.mark.parametrize("schema", [*FILES, *OTHERS])
def test_a_schema_leaves_nothing_open(schema):
    """A mapping says which keys it may have, or of what kind all its values are; but for what is as a machine tells it."""

    def look(node, path):
        if isinstance(node, dict):
            if node.get("type") == "object" and not {"additionalProperties", "propertyNames"} & set(node):
                open_.append(path)
            for key, value in node.items():
                look(value, f"{path}/{key}")

    open_: list[str] = []
    text = yaml.safe_load((SCHEMAS / f"{schema}.yml").read_text("utf-8"))
    look(text, "")
    assert fastjsonschema.compile(text)
    assert open_ == {"native": ["/properties/provenance"]}.get(schema, [])




def put(*path):
    """A change of what a file says: the last is the value, before it where it is put; "gone" is taken away."""
    *place, key, value = path

    def change(data):
        for step in place:
            data = data[step]
        if value == "gone":
            del data[key]
        else:
            data[key] = value

    return change


@pytest.mark.parametrize(
    ("schema", "name", "change", "sentence"),
    [
        ("native", "native/epyc-zen4-vm-asm.json", put("rows", 1, "ns_min", 0), "rows, number 2: a call takes more than 0 ns,"),
    ],
)
def test_a_mistake_is_a_sentence(schema, name, change, sentence):
    found = copy.deepcopy(content(name))
    change(found)
    with pytest.raises(TramplabError) as e:
        checked(name, found, schema)
    assert str(e.value).startswith(f"{name}: {sentence}") and "\n" not in str(e.value)
