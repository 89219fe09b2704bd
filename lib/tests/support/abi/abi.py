"""The calling convention as a check that can be pointed at any lab kernel with any hook attached; long because it is one check.

A state is one number. It decides the traced function and its arguments, the value of every general register, flags and modes, the
stack pointer and the rubbish on the stack. `Hooked.check` plays it and compares with what the convention and the hook
promise: where a callback begins, after the call and (odd numbers) also at the first instruction of the function's body.
test_abi.py draws the states, test_mutants.py shows that the check notices broken kernels.
"""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from support.abi import cpu_state
from support.abi.abi_calls import FUNCTIONS, MAKERS, MASK, Call, places
from support.abi.abi_places import HOOKS, OWN_SETS, Place
from support.abi.decoded import instructions
from tramplab import Direct, Kernel, Ops, TramplabError
from tramplab.build.toolchain import GUEST
from tramplab.emulate.machine import COUNT
from tramplab.isa import ISAS

#: Seeds of states: enough for every function several times, halting at the body in half of them.
STATES = range(1, 61)
#: More instructions than any call here takes; an endless loop is told from it quickly.
BUDGET = 50_000
#: Rubbish this far below the stack pointer, so that a slot nobody wrote is not zero by luck. Calls need less.
BELOW = 2048
#: Scratch registers that ftrace_regs_caller restores, arm64's none.
_TEMPORARIES_KEPT = {"x86_64": {"r10"}, "riscv64": {"t2", "t3", "t4", "t5", "t6"}}
#: Values that every fourth register or argument has, together with some of the lab's addresses.
_USUAL = (0, 1, MASK, 1 << 63, (1 << 63) - 1, 0x80000000, 0xFFFFFFFF, 1 << 47, 0xFFF, 8)


class State:
    """One drawn state; its text is what a failing test shows."""

    def __init__(self, seed: int, call: Call, registers: dict[str, int], sp: int) -> None:
        self.seed, self.call, self.registers, self.sp = seed, call, registers, sp

    def __str__(self) -> str:
        lines = [f"state {self.seed}: {self.call.name}({', '.join(hex(a) for a in self.call.args)}), sp={self.sp:#x}"]
        row = [f"{r}={v:#x}" for r, v in self.registers.items()]
        return "\n".join(lines + ["  " + " ".join(row[i : i + 4]) for i in range(0, len(row), 4)])


class Lab:
    """One lab kernel to play states on; `with lab.hooked(...)` attaches a hook for many of them."""

    SCRATCH_WORDS = 16

    def __init__(self, place: Place, guest: Path = GUEST) -> None:
        self.place = place
        self.kernel = Kernel(place.isa, place.release, meter=COUNT, guest=guest, **dict(place.overrides))
        self.isa, self.machine = ISAS[place.isa], self.kernel.machine
        self.sink = self.kernel.image.address("lab_sink")
        self.scratch = self.kernel.memory(*[0] * self.SCRATCH_WORDS)
        self.functions = {n: self.kernel.function(n) for n in FUNCTIONS}

    @contextmanager
    def hooked(self, hook: str) -> Iterator[Hooked]:
        """Attach a hook's requests to every function; raises TramplabError where the release never had it."""
        with self.kernel.attached(None, *HOOKS[hook]()) as registered, Hooked(self, hook, registered).watched() as hooked:
            yield hooked


@functools.lru_cache(maxsize=1)
def lab(place: Place) -> Lab:
    """The lab of a place, made once for all cases that follow one another there."""
    return Lab(place)


class Hooked:
    """A lab with a hook attached."""

    def __init__(self, lab: Lab, hook: str, registered: tuple) -> None:
        self.lab, self.hook = lab, hook
        self.isa, self.machine, self.kernel = lab.isa, lab.machine, lab.kernel
        isa, image = self.isa, self.kernel.image
        self.site_shape = self.kernel.features["site"]
        # the list's order is the callbacks': the newest ops comes first
        self.ops = [r for r in reversed(registered) if isinstance(r.request, Ops)]
        self.direct = any(isinstance(r.request, Direct) for r in registered)
        self._text = {f.name: self.machine.read(f.address, f.site.body + 4 - f.address) for f in lab.functions.values()}
        self._random = tuple(r for r in isa.registers if r not in isa.fixed and r != isa.link)
        self._fixed = {r: self.machine.register(r) for r in isa.fixed if r != isa.sp}
        m = self.machine
        self._usual = (*_USUAL, m.return_to, m.stack_top, isa.text_base, isa.module_base, lab.scratch)
        self._returns_to = self._addresses_behind_calls("calls_others")
        layout = image.struct("lab_observation")
        self._observed, self._count = image.address("lab_observed"), image.address("lab_observed_count")
        self._words = layout.size // 8
        self._begun: list[dict[str, int]] = []  # what callbacks found of flags and modes
        self._fields = {n: f.offset // 8 for n, f in layout.fields.items()}
        task, pcpu = image.struct("task_struct").fields, image.struct("lab_pcpu").fields
        self._balanced = (
            (image.address("init_task") + task["trace_recursion"].offset, 8, "the recursion guard"),
            (image.address("init_task") + task["preempt_count"].offset, 4, "the task's preempt count"),
            (image.address("init_task") + task["rcu_read_lock_nesting"].offset, 4, "the count of RCU read sides"),
            (
                image.address("init_task") + task["migration_disabled"].offset,
                2,
                "the task's count of migration disabled",
            ),
            (image.address("init_task") + task["bpf_ctx"].offset, 8, "the context of BPF programs"),
            (image.address("lab_boot_pcpu") + pcpu["nr_pinned"].offset, 4, "the CPU's count of pinned tasks"),
            (image.address("lab_boot_pcpu") + pcpu["counts"].offset, pcpu["counts"].size, "a count of BPF entries"),
            # all but the highest bit, which says that nobody waits for the CPU
            (image.address("lab_boot_pcpu") + pcpu["preempt_count"].offset, 3, "the CPU's preempt count"),
        )

    @property
    def callbacks(self) -> set[str]:
        """The guest's functions that are called with flags and modes as the traced function is."""
        return {o.request.callback for o in self.ops} | ({"lab_observe_direct_clobber"} if self.direct else set())

    @contextmanager
    def watched(self) -> Iterator[Self]:
        """For a `with`: what callbacks find is looked at."""
        with ExitStack() as stack:
            for name in self.callbacks:
                begun = self.machine.watching(self.kernel.image.address(name), self._begin)
                stack.enter_context(begun)
            yield self

    def _begin(self) -> None:
        self._begun.append(cpu_state.kept(self.machine))

    def check(self, seed: int, name: str | None = None) -> None:
        """Play a state (of a given function, or one that the seed chooses).

        AssertionError if anything is not as promised; GuestFault or StepLimit if it does not come to its end. Either
        has the state as a note.
        """
        state = self.draw(seed, name)
        try:
            self._play(state)
        except (AssertionError, TramplabError) as e:
            e.add_note(f"{self.kernel}, {self.hook}, {state}")
            raise

    def draw(self, seed: int, name: str | None = None) -> State:
        """The state that a seed stands for; writes the memory that its function reads."""
        rng = random.Random(seed)
        usual, bits = self._usual, rng.getrandbits

        def word() -> int:
            value = bits(66)
            return usual[value % len(usual)] if value >> 64 == 0 else value & MASK

        call = MAKERS[name or rng.choice(FUNCTIONS)](word, self.lab)
        registers = {r: word() for r in self._random}
        isa = self.isa
        if call.result_at is not None:
            registers[isa.struct_return] = call.result_at
        # the stack: rubbish everywhere but above the caller's frame record, then arguments and return address
        words: list[int] = []
        for place, value in zip(places(isa, call.name), call.args, strict=True):
            if isinstance(place, int):
                words.append(value)
            else:
                registers[place] = value
        sp = self.machine.stack_top - 64 - 16 * (bits(6)) - 8 * len(words) & ~15
        if isa.link is None:
            words.insert(0, self.machine.return_to)
            sp -= 8
        else:
            registers[isa.link] = self.machine.return_to
        rubbish = rng.randbytes(self.machine.stack_top - 32 - (sp - BELOW))
        cpu_state.draw(self.machine, rng)
        on_stack = struct.pack(f"<{len(words)}Q", *words)
        self.machine.write(sp - BELOW, rubbish[:BELOW] + on_stack + rubbish[BELOW + len(on_stack) :])
        return State(seed, call, registers, sp)

    # what must hold

    def _play(self, state: State) -> None:
        m, isa, call = self.machine, self.isa, state.call
        f = self.lab.functions[call.name]
        entry = {**state.registers, isa.sp: state.sp}
        m.set_registers(entry)
        kept, flags = cpu_state.kept(m), cpu_state.flags(m)
        self._begun.clear()
        m.write_u64(self._count, 0)
        above = m.read(state.sp, m.stack_top - state.sp)

        start = f.address
        if state.seed & 1:
            # halt at the body to look; what the engine translated for one end of a run must not serve another
            m.poke(f.address, self._text[call.name])
            seen = m.run(f.address, f.site.body, BUDGET).registers
            self._same(entry, seen, self._passed(call.name), "at the body")
            self._same(kept, cpu_state.kept(m), tuple(kept), "at the body")
            if self._keeps_flags(call.name):
                self._same(flags, cpu_state.flags(m), tuple(flags), "at the body")
            m.poke(f.address, self._text[call.name])
            start = f.site.body
        seen = m.run(start, m.return_to, BUDGET).registers
        self._same(entry, seen, isa.callee_saved, "after the call")
        self._same(self._fixed, seen, tuple(self._fixed), "after the call")
        self._same(kept, cpu_state.kept(m), tuple(kept), "after the call")
        for begun in self._begun:
            self._same(kept, begun, tuple(kept), "where a callback begins")
        off = seen[isa.sp] - state.sp - isa.call_pushes
        assert not off, f"the stack is off by {off} bytes"
        for register, value in zip(isa.returns, call.values, strict=False):
            assert seen[register] == value, f"{call.name} returned {seen[register]:#x} in {register}, not {value:#x}"
        for address, value in call.words.items():
            left = m.read_u64(address)
            assert left == value, f"{call.name} left {left:#x} at {address:#x}, not {value:#x}"
        assert m.read(state.sp, len(above)) == above, "the caller's part of the stack changed"
        for address, size, what in self._balanced:
            assert not any(m.read(address, size)), f"{what} is not back at zero"
        self._compare(self._expected(state), self.observations())

    def _passed(self, function: str) -> tuple[str, ...]:
        """The registers that must reach the body: arguments, everything callee-saved, the stack and the way back.

        On x86-64 a variadic function finds the number of vector arguments in rax: ftrace's trampolines keep it, a
        direct call's stub does not. Two ISAs' ftrace_regs_caller also brings temporaries back, and where all that C may
        clobber is saved, it all comes back, but for what the patch site itself uses.
        """
        isa, own = self.isa, self._own_set(function)
        names = {*isa.args, isa.struct_return, *isa.callee_saved, isa.sp} | ({isa.link} if isa.link else set())
        if isa.name == "x86_64" and not self.direct:
            names.add("rax")
        if own == "live":
            names -= {*isa.args, isa.struct_return, "rax"}
            names |= self._taken(tuple(f for o in self._wanting(function) for f in o.functions))
        if own == "clobbered":
            names |= {*isa.scratch} - {"x9", "t0"}
        if own == "own-regs" or (own is None and any(self._saves_regs(o) for o in self.ops)):
            names |= _TEMPORARIES_KEPT.get(isa.name, set()) | ({"t1"} if own else set())
        return tuple(r for r in isa.registers if r in names)

    def _keeps_flags(self, function: str) -> bool:
        """Are condition flags at the body what they were? x86-64's ftrace_regs_caller saves them, and a direct call does not."""
        through = self._through_regs_caller(self._wanting(function)) and self._own_set(function) is None
        return self.isa.name == "x86_64" and through and not self.direct

    def _taken(self, functions: tuple[str, ...]) -> set[str]:
        """The registers that carry arguments of any of these functions."""
        isa, out = self.isa, set()
        for name in functions:
            out |= {p for p in places(isa, name) if isinstance(p, str)}
            out |= {isa.struct_return} if name == "big_struct_return" else set()
        return out

    def _wanting(self, function: str) -> list:
        """The ops that want a function, in list order."""
        requests = [(o, o.request.filter or FUNCTIONS, o.request.notrace) for o in self.ops]
        return [o for o, traced, untraced in requests if function in traced and function not in untraced]

    def _own_set(self, function: str) -> str | None:
        """The save set of the trampoline that only a lone ops has and no kernel."""
        wanting = self._wanting(function)
        alone = len(wanting) == 1 and not self.direct and wanting[0].request.save
        return alone if alone in OWN_SETS else None

    def _same(self, wanted: dict[str, int], seen: dict[str, int], names: tuple[str, ...], when: str) -> None:
        wrong = [r for r in names if seen[r] != wanted[r]]
        assert not wrong, f"{when}: " + ", ".join(f"{r} is {seen[r]:#x}, not {wanted[r]:#x}" for r in wrong)

    # what the callbacks must have seen

    def _expected(self, state: State) -> list[dict[str, object]]:
        """One row per callback in order; a field that is not in a row is not promised."""
        call, isa = state.call, self.isa
        registers = [state.registers[r] for r in isa.args]
        rows = self._entered(call.name, registers, self.machine.return_to, state.sp)
        for (name, args), parent in zip(call.nested, self._returns_to, strict=False):  # two, or none
            rows += self._entered(name, list(args), parent, None)
        if call.jumps:
            name, args = call.jumps
            rows += self._entered(name, list(args), self.machine.return_to, state.sp)
        return rows

    def _entered(self, name: str, args: list[int], parent: int, sp: int | None) -> list[dict[str, object]]:
        site = self.lab.functions[name].site
        wanting = self._wanting(name)
        own = self._own_set(name)
        rows = []
        for o in wanting:
            row: dict[str, object] = {"ip": site.ip, "parent_ip": parent, "op": o.address}
            if own:
                rows.append(row | self._shown_by(own, o, site, args, sp))
                continue
            passed = {"registers", "sp"} if self._through_regs_caller(wanting) else self.lab.place.passed
            if "registers" in passed:
                # the 16-byte site is entered again at its last instruction, which reloads ra; the others behind it
                row["fregs_ip"] = site.body - 4 if self.site_shape == "detour16" else site.body
                row["args"] = args
                full = self._full_registers(wanting)
                if full is not None:
                    row["full_regs"] = full
            if "sp" in passed and sp is not None:
                row["fregs_sp"] = sp
            rows.append(row)
        if self.direct:
            rows.append({"ip": 0, "parent_ip": 0, "op": 0, "args": args[:6]})
        return rows

    def _shown_by(self, own: str, ops, site, args: list[int], sp: int | None) -> dict[str, object]:
        """What a trampoline that no kernel has tells: arguments, and what is in OWN_SETS."""
        shown: dict[str, object] = {"full_regs": own == "own-regs" and self.isa.name == "x86_64"}
        if "ip" in OWN_SETS[own]:
            shown["fregs_ip"] = site.body
        if "sp" in OWN_SETS[own] and sp is not None:
            shown["fregs_sp"] = sp
        taken = len([r for r in self._taken(ops.functions) if r in self.isa.args]) if own == "live" else len(args)
        return shown | {"args": args[:taken]}

    def _saves_regs(self, ops) -> bool:
        return ops.request.save == "regs"

    def _through_regs_caller(self, wanting) -> bool:
        """Does one of a function's ops ask for all registers? A direct call beside others does where that exists."""
        regs = any(self._saves_regs(o) for o in wanting)
        return regs or (self.direct and self.lab.place.had("regs"))

    def _full_registers(self, wanting) -> bool | None:
        """What ftrace_get_regs() answers; None where it cannot tell a partly filled pt_regs from a full one."""
        if not self.lab.place.had("regs"):
            return False  # ftrace_regs has no pt_regs in it
        if self._through_regs_caller(wanting):
            return True
        return False if self.isa.name == "x86_64" else None

    def observations(self) -> list[tuple[int, ...]]:
        """What the callbacks of the last call wrote down, as words of struct lab_observation."""
        n = self.machine.read_u64(self._count)
        words = struct.unpack(f"<{n * self._words}Q", self.machine.read(self._observed, 8 * n * self._words))
        return [words[i : i + self._words] for i in range(0, len(words), self._words)]

    def _compare(self, expected: list[dict[str, object]], observed: list[tuple[int, ...]]) -> None:
        assert len(observed) == len(expected), f"{len(observed)} callbacks ran, not {len(expected)}"
        for i, (row, words) in enumerate(zip(expected, observed, strict=False)):
            for name, value in row.items():
                at = self._fields[name]
                if name == "args":
                    seen = list(words[at : at + len(value)])
                    assert seen == value, f"callback {i} saw arguments {_hex(seen)}, not {_hex(value)}"
                else:
                    assert words[at] == value, f"callback {i} saw {name} {words[at]:#x}, not {value:#x}"

    def _addresses_behind_calls(self, name: str) -> tuple[int, ...]:
        """Where the calls in a function's code return to."""
        f = self.lab.functions[name]
        body = self.machine.read(f.site.body, f.address + f.size - f.site.body)
        code = instructions(self.isa, f.site.body, body)
        found = tuple(i.address + i.size for i in code if i.mnemonic in ("call", "bl", "jalr"))
        if len(found) != 2:
            raise RuntimeError(f"{name} has {len(found)} calls, not 2: did the compiler inline what it calls?")
        return found


def _hex(values: list[int]) -> str:
    return ", ".join(map(hex, values))


def play(lab: Lab, hook: str, seeds: range) -> None:
    """Play some states with a limit on instructions; raises as Hooked.check does at the first that is wrong."""
    with lab.hooked(hook) as hooked:
        for seed in seeds:
            hooked.check(seed)
