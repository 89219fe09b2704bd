"""How large functions are, read from an image: each from its symbol to the next, with its site, without the padding behind it."""

from types import SimpleNamespace

from tramplab.emulate.image import Segment, Symbol
from tramplab.isa import ISAS
from tramplab.isa.x86_64 import ENDBR64, NOP5
from tramplab.vmlinux.saved.sizes import percentiles, traced

BASE = 0xFFFFFFFF81000000
CODE = bytes.fromhex("31c0c3")  # xor eax, eax; ret


def kernel(functions: list[tuple[str, bytes]]):
    """A booted kernel with these functions one behind the other, and where its text lies."""
    symbols, data = {}, b""
    for name, code in functions:
        symbols[name] = Symbol(name, BASE + len(data), 0)
        data += code
    segments = (Segment(BASE, data, len(data), True, False),)
    image = SimpleNamespace(path=None, isa=ISAS["x86_64"], symbols=symbols, every=symbols.values(), segments=segments)
    return SimpleNamespace(image=image, shape="nop5"), (BASE, BASE + len(data))


def padded(code: bytes, padding: str) -> bytes:
    return code + bytes.fromhex(padding)


def test_sites_count_and_padding_does_not():
    functions = [
        ("int3", padded(NOP5 + CODE, "cc" * 8)),
        ("landing_pad", padded(ENDBR64 + NOP5 + CODE, "662e0f1f840000000000")),
        ("nops", padded(NOP5 + CODE, "0f1f4000 6690 90".replace(" ", ""))),
        ("whole", NOP5 + CODE * 3),
    ]
    assert traced(*kernel(functions)) == [8, 12, 8, 14]


def test_a_function_without_a_site_is_left_out_and_ends_the_one_before():
    functions = [("first", NOP5 + CODE), ("notrace", CODE * 9), ("last", NOP5 + CODE * 5)]
    assert traced(*kernel(functions)) == [8, 20]


def test_two_names_of_one_function_are_one():
    booted, text = kernel([("first", NOP5 + CODE), ("second", NOP5 + CODE * 2)])
    booted.image.symbols["alias"] = Symbol("alias", BASE, 0)
    assert traced(booted, text) == [8, 11]


def test_percentiles_grow_to_the_largest():
    found = percentiles([5] * 90 + [100] * 10)
    assert found[0] == (0, 5) and found[-1] == (100, 100) and dict(found)[50] == 5 and dict(found)[95] == 100
