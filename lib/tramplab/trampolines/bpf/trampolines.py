"""Making the trampolines of one kernel: memory for programs and code, and the steps that write them."""

from __future__ import annotations

import dataclasses
import itertools

from ...base.errors import TramplabError
from ...ftrace import arch
from ...ftrace.layout import Heap, fields
from ...ftrace.meant import bpf_takes_registers_only
from ...ftrace.ops import Agreed, Generated, Registered, Request
from ...ftrace.releases import Features, history
from ...ftrace.site import Site
from ...ftrace.steps import Free, Step, Sync, Wait, block, text
from ..arguments import sizes, words
from ..direct import check_direct, registered
from ..guest import Guest
from . import arm64, riscv64, x86_64
from .code import lay_out, size_of
from .plan import BpfProgram, Guards, Sharing, TrampolinePlan
from .protocol import BpfArch
from .request import JUMP, LEVELS, POP, Bpf
from .shape import items
from .signature import require_taken

MODULES: dict[str, BpfArch] = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}
#: The hypothetical ways in which an ISA's trampoline can keep calls and returns in pairs, and why in no other.
_LEVELS = {"x86_64": (), "arm64": LEVELS, "riscv64": (POP,)}
_WHY = {
    "x86_64": "since v6.19 its kernels jump to one that calls the function",
    "riscv64": "the site's JALR goes by t0, and so a jump is a return by the hints; level='pop' needs none",
}
#: The kernel makes no trampoline larger than a page.
LARGEST = 4096


def pushes_saved(features: Features) -> bool:
    """Does a release's JIT push rbx? x86-64's has a slot for it since it takes arguments on the stack (473e3150e30a)."""
    return features.isa == "x86_64" and bpf_takes_registers_only(features)


class BpfTrampolines:
    """Registers requests for programs, and makes and frees their trampolines: code in the module area, or near the kernel's text
    without KASLR; programs and images in the heap."""

    def __init__(self, guest: Guest) -> None:
        self._guest, self._image = guest, guest.image
        self._taken: dict[int, list[int]] = {}  # index of an ops -> its counters

    def serves(self, request: Request) -> bool:
        """Is it a request for BPF programs?"""
        return isinstance(request, Bpf)

    def check(self, request: Request, functions: tuple[str, ...]) -> None:
        """Raise TramplabError unless the release has direct calls, the lab knows what guards the programs in it, and a trampoline
        can be made for this one function in the release."""
        check_direct(self._guest, request)
        features = self._guest.features
        if isinstance(request, Bpf) and request.guarded and not features["bpf"]:
            when = history(features.isa, "bpf")
            raise TramplabError(f"the lab does not know what guards BPF programs in {features}, only {when}.")
        if isinstance(request, Bpf) and request.level not in ("", *_LEVELS[features.isa]):
            raise TramplabError(f"{features.isa} has no trampoline with level={request.level!r}: {_WHY[features.isa]}.")
        if len(functions) != 1:
            raise TramplabError(f"a BPF trampoline is made for one function; {len(functions)} were named.")
        require_taken(self._image.prototypes[functions[0]], features)

    def make(self, request: Bpf, functions: tuple[str, ...]) -> Registered:
        """The registration: a direct call, whose target create() makes, and which can share its function."""
        ops = registered(self._guest, request, functions)
        ops.ops_func, ops.remake, ops.registers_twice = self._share, self._remake, request.calls_function
        return ops

    def create(self, ops: Registered) -> list[Step]:
        """The steps that make an ops' programs and trampoline; sets its direct call."""
        request, site = ops.request, self._guest.sites[ops.functions[0]]
        counters = self._guest.counters.take(request.programs + 1)
        blocks: list[int] = []
        try:
            for size in self._sizes(request):
                blocks.append(self._guest.heap.take(size))
            plan = self._plan(ops, site, blocks)
            base, data = self._code(plan, request, site)
        except TramplabError:
            for at in blocks:
                self._guest.heap.give(at)
            for number in counters:
                self._guest.counters.give(number)
            raise
        self._taken[ops.index] = counters
        ops.direct, ops.jumped = (base, True) if request.level == JUMP else (base | plan.jumped, False)
        ops.generated = (Generated(base, len(data), "bpf_trampoline"),)
        names = (f"bpf_prog[{ops.index}.{n}]" if n else f"bpf_tramp_image[{ops.index}]" for n in range(len(blocks)))
        ops.structs = dict(zip(blocks, names, strict=True))
        made = text(base, data, f"the BPF trampoline of {site.function}")
        flushed = arch.of(self._image.isa).flush("every CPU finds the trampoline")
        return [*self._writes(blocks, counters), made, *flushed]

    def free(self, ops: Registered) -> list[Step]:
        """The steps that free all of an ops' memory, in the order of bpf_tramp_image_put(): a trampoline that calls the function is
        kept until every such call has returned, however long the function sleeps, and then until nobody is in its last
        instructions."""
        steps: list[Step] = [Wait(Sync.CALL_RCU_TASKS, "nobody is in the BPF trampoline")]
        if ops.request.calls_function:
            steps = [
                Wait(Sync.CALL_RCU_TASKS, "nobody has yet to take the BPF trampoline's reference"),
                Wait(Sync.PERCPU_REF, "the function has returned to the BPF trampoline"),
                Wait(Sync.CALL_RCU_TASKS, "nobody is in the BPF trampoline's last instructions"),
            ]
        steps += [Free(self._guest.heap, at, name) for at, name in ops.structs.items()]
        steps += [Free(self._guest.counters, number, "a per-CPU counter") for number in self._taken.pop(ops.index, ())]
        return steps + [Free(self._area(ops.request), made.address, "the BPF trampoline") for made in ops.generated]

    # inside

    def _remake(self, ops: Registered, request: Bpf, shared: bool) -> tuple[list[Step], list[Step]]:
        """The steps that give a registered ops what another request asks for, and those that free what it had. shared: does it
        share its function with an ops that changes the ip? Raises TramplabError if it cannot; the ops is then as before."""
        how, before, taken = MODULES[self._image.isa.name].SHARING, dataclasses.replace(ops), self._taken[ops.index]
        if shared and request.calls_function and how is Sharing.REFUSED:
            raise TramplabError(f"{ops.functions[0]} is shared with an ops that changes the ip: {how.value}; detach that first.")
        ops.request, ops.shared = request, shared
        try:
            steps = self.create(ops)
        except TramplabError:
            ops.request, ops.shared = before.request, before.shared
            raise
        made, self._taken[ops.index] = self._taken[ops.index], taken
        frees = self.free(before)
        self._taken[ops.index] = made
        return steps, frees

    def _share(self, ops: Registered) -> Agreed:
        """Agree to an ops that changes the ip, as bpf_tramp_ftrace_ops_func() does. A trampoline that goes on to the function goes
        where that ops sends it anyway; one that calls the function does what its ISA's JIT has for that. When that ops leaves, the
        kernel may make the trampoline once more; the lab leaves it, and it calls the same function by another instruction.
        """
        how = MODULES[self._image.isa.name].SHARING
        request, function = ops.request, ops.functions[0]
        before = ops.direct, ops.generated, ops.shared
        if request.calls_function and (how is Sharing.REFUSED or request.level == JUMP):
            raise TramplabError(
                f"a BPF trampoline that calls {function} cannot share it with an ops that changes the ip on "
                f"{self._image.isa.name}: {Sharing.REFUSED.value}; detach the one first."
            )
        ops.shared = bool(ops.generated) or request.calls_function  # of a new one that goes on to the function nothing is kept
        if not ops.generated or not request.calls_function or how is Sharing.AS_IT_IS:
            return Agreed(undo=lambda: self._go_back(ops, before))
        plan = self._plan(ops, self._guest.sites[function], list(ops.structs))
        try:
            base, data = self._code(plan, request, self._guest.sites[function])
        except TramplabError:
            ops.shared = False
            raise
        ops.direct, ops.generated = base, (Generated(base, len(data), "bpf_trampoline"),)
        return Agreed(
            [text(base, data, f"the BPF trampoline of {function}, made again to call where the ip leads")],
            [Free(self._area(request), made.address, "the BPF trampoline that was there") for made in before[1]],
            lambda: self._go_back(ops, before),
        )

    def _go_back(self, ops: Registered, before: tuple[int, tuple[Generated, ...], bool]) -> None:
        """Make an ops what it was before it shared, and give back what was made for that."""
        for made in ops.generated:
            if made not in before[1]:
                self._area(ops.request).give(made.address)
        ops.direct, ops.generated, ops.shared = before

    def _area(self, request: Bpf) -> Heap:
        """The memory for a request's code. Without KASLR that is near the text if a site reaches it, which on riscv64 it does
        not."""
        return self._guest.near if not request.kaslr and self._image.isa.name == "arm64" else self._guest.modules

    def _sizes(self, request: Bpf) -> list[int]:
        """Bytes of the image, then of each program."""
        return [self._image.struct("bpf_tramp_image").size] + [self._image.struct("bpf_prog").size] * request.programs

    def _code(self, plan: TrampolinePlan, request: Bpf, site: Site) -> tuple[int, bytes]:
        """The address of room for a trampoline, and its bytes there. Raises TramplabError if it is too large; no room is taken
        then."""
        isa, module = self._image.isa, MODULES[self._image.isa.name]
        pieces = list(items(plan, module))
        size = size_of(isa, module, pieces)
        if size > LARGEST:
            raise TramplabError(
                f"the trampoline for {request.programs} programs on {site.function} would have {size} bytes; at most "
                f"{LARGEST} are allowed: attach fewer programs."
            )
        base = self._area(request).take(size)
        try:
            return base, lay_out(isa, module, pieces, base)
        except TramplabError:
            self._area(request).give(base)
            raise

    def _writes(self, blocks: list[int], counters: list[int]) -> list[Step]:
        places = list(map(self._guest.counters.offset, counters))
        image, *programs = zip(blocks, places, strict=True)
        made = fields(self._image, "bpf_tramp_image", {"pcref": image[1]})
        steps: list[Step] = [block(image[0], made, "the image of a BPF trampoline")]
        for at, counter in programs:
            steps.append(block(at, fields(self._image, "bpf_prog", {"active": counter}), "a BPF program"))
        return steps

    def _plan(self, ops: Registered, site: Site, structs: list[int]) -> TrampolinePlan:
        request = ops.request
        address, run_ctx = self._image.address, self._image.struct("bpf_tramp_run_ctx")
        left, cookies = iter(structs[1:]), itertools.count(1)
        numbers = {"fentry": request.fentry, "fmod_ret": request.fmod_ret, "fexit": request.fexit}
        fentry, fmod_ret, fexit = (
            tuple(BpfProgram(address(request.target(kind)), at, next(cookies)) for at in itertools.islice(left, number))
            for kind, number in numbers.items()
        )
        guards = Guards(
            *map(address, ("__bpf_prog_enter_recur", "__bpf_prog_exit_recur", "__bpf_tramp_enter", "__bpf_tramp_exit"))
        )
        prototype = self._image.prototypes[site.function]
        return TrampolinePlan(
            words=words(self._image.isa, prototype),
            sizes=sizes(prototype),
            fentry=fentry,
            fmod_ret=fmod_ret,
            fexit=fexit,
            guards=guards if request.guarded else None,
            image=structs[0],
            body=site.body,
            run_ctx=run_ctx.size,
            cookie_at=run_ctx.fields["bpf_cookie"].offset,
            program_nops=bool(self._guest.features["bpf_program_nop"]) and request.guarded,
            pushes_saved=pushes_saved(self._guest.features),
            jumped=request.level == JUMP
            or (bool(self._guest.features["direct_jmp"]) and request.calls_function and not ops.shared),
            pops=request.level == POP,
            landing_pad=bool(self._guest.features["ibt"] and self._guest.features["bpf_endbr"]),
            through_way_back=ops.shared,
        )
