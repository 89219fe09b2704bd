"""The parts of the slow path that differ between ISAs: one module each, which implements protocol.Arch."""

from __future__ import annotations

from ...base.errors import TramplabError
from ...emulate.image import Image
from ...isa import Isa
from ..site import Site
from . import arm64, riscv64, x86_64
from .protocol import Arch, FeatureTable

_MODULES: dict[str, Arch] = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}


def of(isa: Isa) -> Arch:
    """The module of an ISA."""
    return _MODULES[isa.name]


def sites(image: Image, features: FeatureTable) -> dict[str, Site]:
    """Function -> its patch site, for all that the compiler recorded one for; in the order of their addresses."""
    functions = sorted(image.functions.values(), key=lambda s: s.address)
    compiled = sorted(image.patch_sites)
    if len(functions) != len(compiled):
        raise TramplabError(f"{len(functions)} traced functions but {len(compiled)} patch sites in {image.path}.")
    site = of(image.isa).site
    return {f.name: site(f.name, f.address, at, features) for f, at in zip(functions, compiled, strict=True)}
