"""Finding a guest's patch sites."""

from __future__ import annotations

from ..base.errors import TramplabError
from ..emulate.image import Image
from . import arch
from .releases import Features
from .site import Site


def sites(image: Image, features: Features) -> dict[str, Site]:
    """Function -> its patch site, for all that the compiler recorded one for; in the order of their addresses."""
    functions = sorted(image.functions.values(), key=lambda s: s.address)
    compiled = sorted(image.patch_sites)
    if len(functions) != len(compiled):
        raise TramplabError(f"{len(functions)} traced functions but {len(compiled)} patch sites in {image.path}.")
    module = arch.of(image.isa)
    return {f.name: module.site(f.name, f.address, at, features) for f, at in zip(functions, compiled, strict=True)}
