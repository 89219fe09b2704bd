"""Every file and every program's words are read and written in an encoding that is said, never in the user's locale's."""

import ast

from support import ROOT

#: Calls that read or write text by the locale: name -> the place of the mode, or None where there is none.
TEXT = {"read_text": None, "write_text": None, "open": 1, "fdopen": 1, "NamedTemporaryFile": 0, "TemporaryFile": 0}
PROGRAMS = {"run", "Popen", "check_output", "check_call", "call"}
BINARY = {"NamedTemporaryFile": "w+b", "TemporaryFile": "w+b"}
#: Where the encoding stands when it has no name.
ENCODING = {"read_text": 0, "write_text": 1}


def left_to_the_locale(source: str) -> list[str]:
    """Calls that read or write text and do not say in which encoding."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [f"line {call.lineno}: {ast.unparse(call)}" for call in calls if reads_text(call) and not says(call)]


def name_of(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def reads_text(call: ast.Call) -> bool:
    name, method = name_of(call), isinstance(call.func, ast.Attribute)
    named = {word.arg: word.value for word in call.keywords}
    if name in PROGRAMS:
        return not {"text", "universal_newlines"}.isdisjoint(named)
    if name not in TEXT or ast.unparse(call.func) == "os.open":
        return False
    place = TEXT[name]
    if place is None:
        return method
    place -= name == "open" and method  # of a path
    mode = named.get("mode", call.args[place] if len(call.args) > place else ast.Constant(BINARY.get(name, "r")))
    return not (isinstance(mode, ast.Constant) and "b" in str(mode.value))


def says(call: ast.Call) -> bool:
    return len(call.args) > ENCODING.get(name_of(call), 99) or "encoding" in {word.arg for word in call.keywords}


def test_text_without_an_encoding_is_seen():
    left = ["path.read_text()", "open(path, 'w')", "path.open(mode=chosen)", "subprocess.run(command, text=True)"]
    said = ["path.read_text('utf-8')", "path.open(encoding='utf-8')", "open(path, 'rb')", "os.open(path, os.O_RDONLY)"]
    assert left_to_the_locale("\n".join([*left, *said])) == [f"line {n}: {source}" for n, source in enumerate(left, 1)]


def test_no_text_is_left_to_the_locale():
    files = [path for folder in ("lib", "book") for path in sorted((ROOT / folder).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): left_to_the_locale(path.read_text("utf-8")) for path in files}
    assert len(found) > 200 and {path: calls for path, calls in found.items() if calls} == {}
