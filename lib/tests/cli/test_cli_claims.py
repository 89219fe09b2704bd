"""The command that says what was claimed, and what its runs say of it now."""

import json


def test_claims(tramplab):
    """All or one, as text that fits a terminal and as JSON; an unknown one is named with its neighbours."""
    status, out, err = tramplab("claims")
    assert (status, err) == (0, "") and max(map(len, out.splitlines())) <= 72
    every = json.loads(tramplab("claims", "--json")[1])
    assert all(f"\n{claim['id']:<4}" in out for claim in every)
    one = json.loads(tramplab("claims", "s5", "--json")[1])
    assert one in every and one["verdict"]["kind"] == "holds" and one["verdict"]["because"]
    assert tramplab("claims", "s5")[1].startswith("s5  holds\n")
    status, out, err = tramplab("claims", "s55")
    assert (status, out) == (2, "") and "did you mean s5" in err
