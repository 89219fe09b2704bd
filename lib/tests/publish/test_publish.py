"""Tables made from rows."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tramplab.base.errors import TramplabError
from tramplab_book.publish.table import pivot, text_table

ISAS = ("x86_64", "arm64", "riscv64")
COMPONENTS = ("site", "trampoline", "core", "callback", "function")
COUNTS = ("instructions", "loads", "stores", "load_bytes", "store_bytes", "branches_taken")


def example_rows(hooks=("none", "ops", "direct+ops")) -> pd.DataFrame:
    """Rows in the form of the first study; the numbers mean nothing."""
    rows = [
        {"isa": isa, "release": "v6.16", "hook": hook, "callbacks": 1, "component": component}
        | {name: (i + 1) * (j + 2) * (k + 3) for k, name in enumerate(COUNTS)}
        for isa in ISAS
        for i, hook in enumerate(hooks)
        for j, component in enumerate(COMPONENTS)
    ]
    frame = pd.DataFrame(rows)
    frame.attrs["units"] = {"load_bytes": "B", "store_bytes": "B"}
    return frame


# -- tables


def test_table_is_aligned_and_names_its_units():
    frame = pd.DataFrame({"isa": ["arm64", "riscv64"], "loads": [7, 11], "bytes": [88, 1024], "ratio": [0.5, 2.0]})
    frame.attrs["units"] = {"bytes": "B"}
    assert text_table(frame) == (
        "isa      loads  bytes  ratio\n"
        "                    B\n"
        "arm64        7     88   0.50\n"
        "riscv64     11   1024      2\n"
    )


def test_table_shows_nothing_as_a_dash_and_truth_as_a_word():
    frame = pd.DataFrame({"a": [None, "x\ny"], "b": [1.0, float("nan")], "c": [True, False]})
    assert text_table(frame) == "a    b  c\n-    1  yes\nx y  -  no\n"


def test_empty_table_says_so():
    assert text_table(pd.DataFrame({"isa": []})) == "isa\n(no rows)\n"


def test_pivoted_frame_keeps_index_and_both_header_levels():
    frame = example_rows(("ops",)).pivot(index="isa", columns="component", values=["loads", "load_bytes"])
    frame.attrs["units"] = {"load_bytes": "B"}
    lines = text_table(frame[[("loads", "site"), ("load_bytes", "core")]]).splitlines()
    assert [line.split() for line in lines[:3]] == [["loads", "load_bytes"], ["isa", "site", "core"], ["B"]]
    assert [line.split()[0] for line in lines[3:]] == sorted(ISAS)


def test_pivot_adds_totals_in_the_order_of_the_rows():
    table = pivot("instructions", index=("isa", "hook"))(example_rows())
    assert list(table.columns) == ["isa", "hook", *COMPONENTS, "total"]
    assert list(table["isa"].drop_duplicates()) == list(ISAS)
    assert (table[list(COMPONENTS)].sum(axis=1) == table["total"]).all()
    assert pivot("load_bytes", index=("isa", "hook"))(example_rows()).attrs["units"]["core"] == "B"


def test_pivot_refuses_to_merge_rows():
    with pytest.raises(TramplabError, match=r"several rows for isa=x86_64.*tells them apart"):
        pivot("instructions", index=("isa",))(example_rows())
    with pytest.raises(TramplabError, match="no column cycles; they have isa"):
        pivot("cycles")(example_rows())


def test_wide_table_is_split_before_it_is_refused():
    table = pivot("instructions")(example_rows())
    text = text_table(table, 66, split="isa")
    assert [line for line in text.splitlines() if line in ISAS] == list(ISAS)
    assert max(map(len, text.splitlines())) <= 66
    with pytest.raises(TramplabError, match=r"does not fit into 40; widest: "):
        text_table(table, 40, split="isa")


@given(
    st.lists(
        st.tuples(st.text("abc_ ", min_size=1, max_size=12), st.lists(st.integers(0, 10**9), min_size=2, max_size=2)),
        min_size=1,
        max_size=12,
        unique_by=lambda column: column[0],
    ),
    st.sampled_from([66, 72]),
)
def test_no_line_is_ever_too_long(columns, width):
    frame = pd.DataFrame(dict(columns))
    try:
        text = text_table(frame, width)
    except TramplabError:
        return
    assert all(len(line) <= width and line == line.rstrip() for line in text.splitlines())
    assert [int(n) for n in text.split("\n")[-2].split()] == list(frame.iloc[-1])
