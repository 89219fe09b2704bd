"""The kretprobe that an fprobe's shim shows to handlers made for kretprobes."""

from __future__ import annotations

from ...base.errors import TramplabError, unknown
from ...emulate.image import Image
from ...ftrace.layout import pack
from ...ftrace.steps import Step, block
from ..guest import Guest
from ..kprobe import MODULES, Kretprobe, kretprobe
from .handlers import shims
from .request import Fprobe

STRUCT = "lab_shim"
_KPROBE, _PROBE, _OWNER = "kprobe", "kretprobe", "owner"
#: How an instance's owner leads to the kretprobe: where kretprobes are on return hooks, and where not.
_LEADS = {"rethook": ("rethook", "data"), "own": ("kretprobe_holder", "rp")}


def check(image: Image, request: Fprobe, functions: tuple[str, ...]) -> None:
    """Raise TramplabError for an unknown shim, and for one that would be on several functions."""
    if request.shim and request.shim not in shims(image):
        raise unknown("shim", request.shim, shims(image))
    if request.shim and len(functions) != 1:
        raise TramplabError(f"a shim stands for one kretprobe, which is on one function; {len(functions)} were named.")


def shim(guest: Guest, request: Fprobe, function: str, private: int, at: int) -> list[Step]:
    """The steps that make a shim's kretprobe at an address, with the old handlers and its owner; nobody registers it."""
    image, site = guest.image, guest.sites[function]
    address = site.ip if guest.features["kprobes_on_ftrace"] else MODULES[image.isa.name].place(site)
    old = Kretprobe(entry=request.entry, declines=request.declines, observe=request.observe, breakpoint=True)
    called = {n: image.address(f) for n, f in kretprobe.handlers(old).items() if n != "pre_handler"}
    data = bytearray(image.struct(STRUCT).size)
    kprobe = pack(image.struct(_KPROBE), {"addr": address, "private": private})
    data[: image.struct(_PROBE).size] = kprobe + pack(image.struct(_PROBE), called)[len(kprobe) :]
    struct, leads = _LEADS[str(guest.features["kretprobe"])]
    owner, place = pack(image.struct(struct), {leads: at}), image.struct(STRUCT).fields[_OWNER].offset
    data[place : place + len(owner)] = owner
    return [block(at, bytes(data), "the kretprobe that the old handlers believe to be on")]
