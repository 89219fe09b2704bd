"""Packed charts: what book.js makes of them is what they were made of."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.publish.charts import EXAMPLES, example
from tramplab.base.errors import TramplabError
from tramplab.publish.figures.chart import Drawing
from tramplab.publish.figures.chart.packed import changes, packed
from tramplab.publish.figures.chart.panels import shared

values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


def applied(old, made):
    """What book.js does."""
    new = copy.deepcopy(old)
    for path, *value in made:
        at = new
        for key in path[:-1]:
            at = at[key]
        if value:
            at[path[-1]] = value[0]
        else:
            del at[path[-1]]
    return new


@given(st.dictionaries(st.sampled_from("abc"), values), st.dictionaries(st.sampled_from("abc"), values))
def test_changes_make_the_one_of_the_other(old, new):
    made = json.loads(json.dumps(list(changes(old, new))))
    assert json.dumps(applied(old, made), sort_keys=True) == json.dumps(new, sort_keys=True)
    assert list(changes(old, copy.deepcopy(old))) == []


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_kind_of_chart_is_unpacked_whole_and_small(kind):
    whole = example(kind)
    small = json.loads(json.dumps(packed(whole, "words", shared())))
    rows = [dict(zip(small["columns"], row, strict=True)) for row in zip(*small["columns"].values(), strict=True)]
    wide = {"config": shared(), **small["wide"]}
    narrow = applied(wide, small["narrow"])
    assert rows == json.loads(json.dumps(whole.rows))
    for layout, made in (("wide", wide), ("narrow", narrow)):
        assert made == json.loads(json.dumps({**getattr(whole, layout), "description": "words"}))
    assert "config" not in small["wide"], "every chart shares these settings"
    before = json.dumps({"rows": whole.rows, "wide": whole.wide, "narrow": whole.narrow})
    assert len(json.dumps(small)) < 0.9 * len(before)


def test_rows_that_differ_in_their_columns_are_refused():
    with pytest.raises(TramplabError, match="must all have the same columns"):
        packed(Drawing([{"a": 1}, {"b": 2}], {}, {}), "words", {})
