"""Documents as Python has them, and a sentence for each kind of what cannot be read."""

import pytest

from support.complaints import complaint
from tramplab.base import documents


def test_what_is_written_is_read():
    assert documents.parsed("a.yml", "one: {two: [3, '4', 2026-11-21]}") == {"one": {"two": [3, "4", "2026-11-21"]}}
    assert documents.parsed("a.json", '{"one": [1.5, null]}') == {"one": [1.5, None]}
    assert documents.parsed("a.csv", 'id,said\nx,"a, b"\ny,\n') == [{"id": "x", "said": "a, b"}, {"id": "y", "said": ""}]
    assert documents.parsed("a.yml", "[" * 99 + "1" + "]" * 99) == documents.parsed("a.json", "[" * 99 + "1" + "]" * 99)
    assert documents.decoded("a.yml", b"one:\r\n- \xc3\xb6\r\n") == "one:\n- \xf6\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.yml", b"one: {two: 1\n", "a.yml is not YAML: did not find expected ',' or '}' in line 2, column 1."),
        ("a.yml", b"a: 1\nb: {c: 1, d: 2, c: 3}\n", "a.yml is not YAML: the key c is there twice in line 2, column 17."),
        ("a.yml", b"a: 0x_\n", "a.yml is not YAML: invalid literal for int() with base 16: ''."),
        ("a.yml", "a: 1\n# Töpel\n".encode("latin-1"), "a.yml is not UTF-8: byte 0xf6 in line 2, column 4."),
        ("a.json", b'{"a": 1,\n "b": "c', "a.json is not JSON: unterminated string in line 2, column 7."),
        ("a.json", b'{"a": 1, "b": {"c": 1, "c": 2}}', "a.json is not JSON: the key c is there twice."),
        ("a.yml", b"a: " + b"[" * 100_000, "a.yml is not YAML: it is nested too deep."),
        ("a.yml", b"a: " + b"9" * 5000, "a.yml is not YAML: a number has too many digits."),
        ("a.yml", b"a: .inf\n", "a.yml is not YAML: .inf is no number."),
        ("a.json", b'{"a": ' * 5000 + b"1" + b"}" * 5000, "a.json is not JSON: it is nested too deep."),
        ("a.json", b'{"a": -' + b"9" * 5000 + b"}", "a.json is not JSON: a number has too many digits."),
        ("a.json", b'{"a": 1e999}', "a.json is not JSON: 1e999 is no number."),
        ("a.csv", b"id,n\nx,1\ny\n", "a.csv is not CSV: line 3 has 1 values, and there are 2 columns."),
        ("a.csv", b'id,n\nx,"1\n', "a.csv is not CSV: unexpected end of data in line 2."),
        ("a.csv", b"id,id\nx,1\n", "a.csv is not CSV: two columns have the same name."),
    ],
)
def test_what_cannot_be_read_is_a_sentence_with_its_place(name, content, said):
    assert complaint(lambda: documents.parsed(name, documents.decoded(name, content))).startswith(said)


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    assert complaint(lambda: documents.text(tmp_path, "a.yml")) == "cannot read a.yml: Is a directory."
