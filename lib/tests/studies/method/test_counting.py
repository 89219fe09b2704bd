"""The example of the method page is the same whichever assembler makes it."""

import pytest

from support.base.keystones import check_without, has_keystone, hexadecimal
from tramplab.build import assemble
from tramplab.isa import ISAS
from tramplab_book.studies.method.counting import EXAMPLES


@has_keystone
@pytest.mark.parametrize("isa", [isa for isa in EXAMPLES if ISAS[isa].keystone])
@pytest.mark.parametrize("base", [10, 16])
@pytest.mark.parametrize("address", [0, 0xFFFF800080001000])
def test_keystone_equals_clang(isa, base, address, monkeypatch):
    record, text = ISAS[isa], EXAMPLES[isa]
    if base == 16:
        hexadecimal(record, monkeypatch)
    assert assemble.by_keystone(record, text, address) == assemble.by_clang(record, text, address)


def test_it_is_counted_without_keystone(tmp_path):
    check_without(tmp_path, "studies/test_golden.py", "test_ten_instructions or test_golden_table and counting")
