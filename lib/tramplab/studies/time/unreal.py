"""Which of the hooks that rows name has no kernel."""

from __future__ import annotations

from ...lab.hooks import HOOKS


def hypothetical(hook: str) -> bool:
    """Is this a hook that no kernel has? Its name as rows and results of native runs have it, with a number of callbacks or not.

    >>> hypothetical("ops-live"), hypothetical("ops x2"), hypothetical("ops:10")
    (True, False, False)
    """
    name = hook.partition(" ")[0].partition(":")[0]
    return name in HOOKS and HOOKS[name].title.startswith("hypothetical")
