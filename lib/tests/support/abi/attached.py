"""Kernels with something attached, as a fixture for checks of the calling convention."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import pytest

from support.abi import abi
from support.abi.abi_places import Place
from tramplab import Kernel


def attached(hooked: Callable[[Kernel, str], AbstractContextManager], cases: Sequence[tuple[Place, str]]):
    """A fixture that gives, for each (place, hook), what `hooked` makes of the place's kernel: once for all states."""

    @pytest.fixture(params=cases, ids=lambda case: f"{case[0]}-{case[1]}")
    def fixture(request):
        place, hook = request.param
        with hooked(abi.lab(place), hook) as made:
            yield made

    return fixture
