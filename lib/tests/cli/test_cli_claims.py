"""The command that says what was claimed, and what its runs say of it now."""

import json

from tramplab_book.publish.claims import claims


def test_claims(tramplab, monkeypatch):
    """All or one, of a few, as text that fits a terminal and as JSON; an unknown one is named with its neighbours."""
    few = {name: claims.get(name) for name in ("v2", "s5", "d1")}
    monkeypatch.setattr(claims, "read", lambda: few)
    status, out, err = tramplab("claims")
    assert (status, err) == (0, "") and max(map(len, out.splitlines())) <= 72
    every = json.loads(tramplab("claims", "--json")[1])
    assert all(f"\n{claim['id']:<4}" in out for claim in every)
    one = json.loads(tramplab("claims", "s5", "--json")[1])
    assert one in every and one["verdict"]["kind"] == "holds" and one["verdict"]["because"]
    assert tramplab("claims", "s5")[1].startswith("s5  holds\n")
    status, out, err = tramplab("claims", "s55")
    assert (status, out) == (2, "") and "did you mean s5" in err
