"""A drawing as small JSON for a page: each column's name once, one layout whole and the other as what differs.

book/_static/book.js puts it together again. A page has many charts, and what repeats at a distance no compression finds.
"""

from collections.abc import Iterator

from ....base.errors import TramplabError
from .drawing import Drawing


def packed(drawing: Drawing, description: str, config: dict) -> dict:
    """{"columns": name -> values, "wide": spec, "narrow": changes}, see changes().

    description: for assistive technology, in both layouts. config: the settings that every chart shares; a layout that has
    just these leaves them out, and book.js puts them back. Raises TramplabError for rows with different names.
    """
    names = list(drawing.rows[0]) if drawing.rows else []
    if any(list(row) != names for row in drawing.rows):
        raise TramplabError("the rows of a chart must all have the same columns.")
    wide, narrow = (
        {k: v for k, v in layout.items() if k != "config" or v != config} | {"description": description}
        for layout in (drawing.wide, drawing.narrow)
    )
    columns = {name: [row[name] for row in drawing.rows] for name in names}
    return {"columns": columns, "wide": wide, "narrow": list(changes(wide, narrow))}


def changes(old: object, new: object, path: tuple[str | int, ...] = ()) -> Iterator[list]:
    """What makes `new` of `old`: [path, value] to set, [path] to remove; lists of different lengths are set whole.

    >>> list(changes({"a": [1, {"b": 2}], "c": 3}, {"a": [1, {"b": 4}], "d": 5}))
    [[['c']], [['a', 1, 'b'], 4], [['d'], 5]]
    """
    if isinstance(old, dict) and isinstance(new, dict):
        yield from ([[*path, key]] for key in old if key not in new)
        for key, value in new.items():
            yield from changes(old[key], value, (*path, key)) if key in old else [[[*path, key], value]]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from changes(a, b, (*path, i))
    elif old != new or type(old) is not type(new):
        yield [list(path), new]
