"""Making the trampolines of one kernel: memory for programs and code, and the steps that write them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType

from ...emulate.image import Image
from ...errors import TramplabError
from ...ftrace.layout import Heap, fields
from ...ftrace.ops import Registered
from ...ftrace.releases import Features
from ...ftrace.site import Site
from ...ftrace.steps import Step, Write, text
from ..arguments import words
from . import arm64, riscv64, x86_64
from .code import lay_out, size_of
from .request import Bpf
from .shape import Guards, Plan, Program, items
from .signature import require

_MODULES: dict[str, ModuleType] = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}
#: The kernel makes no trampoline larger than a page.
LARGEST = 4096


class BpfTrampolines:
    """Makes and frees them; code comes from the module area, programs and images from the heap."""

    def __init__(
        self, image: Image, features: Features, site: Callable[[str], Site], module_area: Heap, heap: Heap
    ) -> None:
        self.image, self.features, self._site = image, features, site
        self._area, self._heap = module_area, heap
        self._owned: dict[int, list[int]] = {}  # index of an ops -> its blocks of the heap
        counts = image.struct("lab_pcpu").fields["counts"]
        self._first_count = counts.offset
        self._free_counts = list(range(counts.elements))
        self._taken_counts: dict[int, list[int]] = {}

    def check(self, functions: tuple[str, ...]) -> None:
        """Raise TramplabError unless a trampoline can be made for this one function."""
        if len(functions) != 1:
            raise TramplabError(f"a BPF trampoline is made for one function; {len(functions)} were named.")
        require(self.image.prototypes[functions[0]])

    def create(self, ops: Registered) -> list[Step]:
        """The steps that make an ops' programs and trampoline; sets its direct call. Nothing is kept if it cannot be made."""
        request, site = ops.request, self._site(ops.functions[0])
        structs = self._structs(ops, request.programs)
        try:
            plan = self._plan(request, site, structs)
            own = _MODULES[self.image.isa.name]
            pieces = list(items(plan, own))
            size = size_of(self.image.isa, own, pieces)
            if size > LARGEST:
                raise TramplabError(
                    f"the trampoline for {request.programs} programs on {site.function} would have {size} bytes; at most "
                    f"{LARGEST} are allowed: attach fewer programs."
                )
            base = self._area.take(size)
        except TramplabError:
            self.free(ops)
            raise
        ops.direct, ops.direct_size = base | plan.jumped, size
        return [
            *self._writes(structs, ops.index),
            text(base, lay_out(self.image.isa, own, pieces, base), f"the BPF trampoline of {site.function}"),
        ]

    def free(self, ops: Registered) -> list[Step]:
        """Give everything back, once everybody has left it; what it holds does not matter any more."""
        for block in self._owned.pop(ops.index, ()):
            self._heap.give(block)
        self._free_counts = sorted(self._free_counts + self._taken_counts.pop(ops.index, []))
        if ops.direct_size:
            self._area.give(ops.entry)
        return []

    def structs(self) -> dict[int, str]:
        """The addresses of what trampolines work with -> names: by the index of the ops "bpf_tramp_image[0]", and with the
        program's number "bpf_prog[0.1]"."""
        return {
            at: f"bpf_prog[{index}.{n}]" if n else f"bpf_tramp_image[{index}]"
            for index, blocks in self._owned.items()
            for n, at in enumerate(blocks)
        }

    # inside

    def _structs(self, ops: Registered, programs: int) -> list[int]:
        """Addresses: of the image, then of each program; a per-CPU counter is set aside for each."""
        wanted = programs + 1
        if len(self._free_counts) < wanted:
            raise TramplabError("the guest's per-CPU memory is full: detach some BPF programs first.")
        self._taken_counts[ops.index], self._free_counts = self._free_counts[:wanted], self._free_counts[wanted:]
        sizes = [self.image.struct("bpf_tramp_image").size] + [self.image.struct("bpf_prog").size] * programs
        self._owned[ops.index] = blocks = [self._heap.take(size) for size in sizes]
        return blocks

    def _writes(self, structs: list[int], index: int) -> list[Step]:
        counters = [self._first_count + 4 * i for i in self._taken_counts[index]]
        image, *programs = zip(structs, counters, strict=True)
        made = fields(self.image, "bpf_tramp_image", {"pcref": image[1]})
        steps: list[Step] = [Write(image[0], made, False, "the image of a BPF trampoline")]
        for at, counter in programs:
            steps.append(Write(at, fields(self.image, "bpf_prog", {"active": counter}), False, "a BPF program"))
        return steps

    def _plan(self, request: Bpf, site: Site, structs: list[int]) -> Plan:
        address, run_ctx = self.image.address, self.image.struct("bpf_tramp_run_ctx")
        code, cookies = address(request.target), itertools.count(1)
        programs = [Program(code, at, next(cookies)) for at in structs[1:]]
        bounds = list(itertools.accumulate((request.fentry, request.fmod_ret, request.fexit), initial=0))
        fentry, fmod_ret, fexit = (tuple(programs[a:b]) for a, b in itertools.pairwise(bounds))
        if not request.observe:  # a program that has a say is another one
            fmod_ret = tuple(Program(address("lab_bpf_modify"), p.struct, p.cookie) for p in fmod_ret)
        guards = Guards(
            *map(address, ("__bpf_prog_enter_recur", "__bpf_prog_exit_recur", "__bpf_tramp_enter", "__bpf_tramp_exit"))
        )
        return Plan(
            words=words(self.image.isa, self.image.prototypes[site.function]),
            fentry=fentry,
            fmod_ret=fmod_ret,
            fexit=fexit,
            guards=guards if request.guarded else None,
            image=structs[0],
            body=site.body,
            run_ctx=run_ctx.size,
            cookie_at=run_ctx.fields["bpf_cookie"].offset,
            jumped=bool(self.features["direct_jmp"]) and request.calls_function,
            landing_pad=bool(self.features["ibt"]),
        )
