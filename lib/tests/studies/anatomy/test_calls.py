"""The study of calls as trees of functions."""

from tramplab_book.studies.anatomy import calls


def test_the_parts_of_the_study_add_up_to_what_each_mechanism_adds():
    """The site and the function, which its table leaves out, execute as much without a hook."""
    table = calls.table(calls.rows())
    parts = table.drop(columns=["isa", "mechanism", "added"])
    assert len(table) == 3 * len(calls.MECHANISMS) and (parts.sum(axis="columns") == table["added"]).all()
