"""Data files against their schemas: the files that there are, and a sentence for each kind of mistake."""

import copy
import json

import fastjsonschema
import pytest
import yaml

from support import ROOT
from tramplab import TramplabError
from tramplab.schema import SCHEMAS, checked

DATA = ROOT / "data"
#: Schema -> the files that are held against it.
FILES = {
    "claims": ["claims.yml"],
    "releases": ["releases.yml"],
    "addresses": ["addresses.yml"],
    "function-sizes": ["function-sizes.yml"],
    "core": sorted(f"cores/{path.name}" for path in (DATA / "cores").glob("*.yml")),
    "kernel": sorted(f"kernels/{path.name}" for path in (DATA / "kernels").glob("*.json")),
    "kernel-races": ["kernel-races.json"],
    "context-programs": ["context-programs.yml"],
    "kernel-frames": ["kernel-frames.json"],
    "kernel-probes": ["kernel-probes.json"],
    "kernels": ["kernels/packages.yml"],
    "native": sorted(f"native/{path.name}" for path in (DATA / "native").glob("*.json")),
}


def content(name: str):
    """What a data file says."""
    text = (DATA / name).read_text("utf-8")
    return json.loads(text) if name.endswith(".json") else yaml.safe_load(text)


def test_every_file_has_a_schema():
    assert {path.stem for path in SCHEMAS.iterdir()} == set(FILES)
    there = {str(path.relative_to(DATA)) for path in DATA.rglob("*") if path.suffix in (".yml", ".json")}
    assert there == {name for names in FILES.values() for name in names}


@pytest.mark.parametrize(("schema", "name"), [(schema, name) for schema, names in FILES.items() for name in names])
def test_files_are_as_their_schemas_say(schema, name):
    assert checked(name, content(name), schema) == content(name)


@pytest.mark.parametrize("schema", FILES)
def test_a_schema_leaves_nothing_open(schema):
    """A mapping says which keys it may have, or of what kind all its values are; but for what is as a machine tells it."""

    def look(node, path):
        if isinstance(node, dict):
            if node.get("type") == "object" and "additionalProperties" not in node:
                open_.append(path)
            for key, value in node.items():
                look(value, f"{path}/{key}")

    open_: list[str] = []
    text = yaml.safe_load((SCHEMAS / f"{schema}.yml").read_text("utf-8"))
    look(text, "")
    assert fastjsonschema.compile(text)
    left = {"releases": ["/properties/majors"], "native": ["/properties/rows/items", "/properties/provenance"]}
    assert open_ == left.get(schema, [])


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
        ("claims", "claims.yml", put("claims", 1, "said", "gone"), "v2 has no said."),
        ("claims", "claims.yml", put("claims", 1, "id", 7), "claims, number 2: id is read as 7; put it in quotes."),
        ("claims", "claims.yml", put("claims", 0, "Who is this?"), "claims: 0 must be a mapping, not 'Who is this?'."),
        ("claims", "claims.yml", put("threads", "V", "people", []), "thread V: people is empty; fill it in or leave it out."),
        ("claims", "claims.yml", put("threads", "V", "people", "Ann"), "thread V: people must be a list, not 'Ann'."),
        ("claims", "claims.yml", put("chapters", None), "the file: chapters must be a mapping, not None."),
        ("releases", "releases.yml", put("frist", "v5.17"), "the file: unknown key 'frist'; did you mean first or"),
        ("releases", "releases.yml", put("first", "5.17"), "the file: a release is written like v6.16, not '5.17'."),
        (
            "releases",
            "releases.yml",
            put("arm64", "regs", 0, "sure", "guessed"),
            "arm64, regs, number 1: unknown sure 'guessed'. Known: read, inferred, recalled.",
        ),
        ("core", "cores/zen3.yml", put("clock_ghz", 0), "the file: a clock is more than 0 GHz, not 0."),
        ("core", "cores/zen3.yml", put("parameters", "load", "low", 1.5), "parameter load: low must be a whole number, not 1.5."),
        ("core", "cores/zen3.yml", put("mca", 3), "the file: mca must be a text, not 3."),
        ("core", "cores/zen3.yml", put("in_order", "no"), "the file: in_order must be a true or false, not 'no'."),
    ],
)
def test_a_mistake_is_a_sentence(schema, name, change, sentence):
    data = copy.deepcopy(content(name))
    change(data)
    with pytest.raises(TramplabError) as e:
        checked(name, data, schema)
    assert str(e.value).startswith(f"{name}: {sentence}") and "\n" not in str(e.value)
