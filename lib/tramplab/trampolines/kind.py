"""A kind of hook: who makes it, and the hooks by name that are of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..ftrace.maker import Maker
from ..ftrace.ops import Request
from ..ftrace.releases import Features
from ..ftrace.sharing import SharingSlowPath
from .guest import Guest

MAX_CALLBACKS = 120


@dataclass(frozen=True)
class Hook:
    """A way to hook a function.

    needs: the feature a release must have (see data/releases.yml).
    counts: can several callbacks be attached?
    requests: number of callbacks -> what to register, in order.
    most: the largest number of callbacks.
    hypothetical: no kernel has it, and `needs` is what the lab builds it on.
    offered: the feature with which kernels have it, where that can be older than what the lab builds.
    probe: it is built on an ops, or beside them, so what it executes is mostly its own.
    traps: CPUs take breakpoints for it, which only emulated CPUs do here.
    unlike: a value of `needs` with which the lab does not build it.
    instead: the hook that does the same where a release does not have this one.
    use: the key under `broken` in data/releases.yml that it is a case of.
    placed: of a direct call by itself, where its code lies: near the kernel's text, or as far as BPF's code in a kernel with KASLR.
    """

    name: str
    title: str
    needs: str
    counts: bool
    requests: Callable[[int], list[Request]]
    most: int = MAX_CALLBACKS
    hypothetical: bool = False
    offered: str = ""
    probe: bool = False
    traps: bool = False
    unlike: str = ""
    instead: str = ""
    use: str = ""
    placed: Literal["", "near", "far"] = ""

    def there(self, features: Features) -> bool:
        """Does the lab build it with these features?"""
        return bool(features[self.needs]) and features[self.needs] != self.unlike


@dataclass(frozen=True)
class Kind:
    """The interface of a folder of trampolines/.

    maker: makes the maker of one guest.
    hooks: those of this kind, by name.
    """

    maker: Callable[[Guest], Maker]
    hooks: tuple[Hook, ...] = ()


def _as_in_the_release(guest: Guest, makers: Sequence[Maker]) -> SharingSlowPath:
    return SharingSlowPath(guest.image, guest.features, guest.heap, guest.sites, makers)


@dataclass(frozen=True)
class SlowPathKind:
    """A slow path that a kernel can be made with.

    check: raises TramplabError if a kernel of these features cannot have it.
    features: features of the release -> features of the guest.
    make: (guest, makers) -> its slow path.
    note: the words for it in a kernel's name.
    """

    check: Callable[[Features], None] = lambda features: None
    features: Callable[[Features], Features] = lambda features: features
    make: Callable[[Guest, Sequence[Maker]], SharingSlowPath] = _as_in_the_release
    note: str = ""


#: The slow path of the release.
RELEASES = SlowPathKind()
