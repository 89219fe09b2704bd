"""Random programs and random layouts: whatever the rewriter accepts computes the same, and never leaves its memory."""

import random
from collections import Counter

import pytest

from support.models.contexts import contexts
from support.plugins.seeds import drawn, seeds
from tramplab.base.errors import TramplabError
from tramplab.build.dwarf import Field, Struct
from tramplab.sparsity.context import Refused, Rewritten, rewrite
from tramplab.sparsity.context.encoding import CONDITIONS, LDX, decoded, encoded
from tramplab.sparsity.context.layout import Always, At, Layout, Nowhere, slots, whole
from tramplab.sparsity.context.refusal import BY_LAYOUT, BY_PROGRAM, ESCAPE, INVALID, RANGE
from tramplab.sparsity.context.run import CONTEXT, run
from tramplab.sparsity.context.text import assembled
from tramplab.sparsity.context.verify import verify

#: A struct of words, an array, halves and padding; not any ISA's.
REGS = Struct("pt_regs", 88, {"r": Field(0, 40, 5), "sp": Field(40, 8), "n": Field(48, 4), "m": Field(52, 4), "k": Field(56, 4)} | {
    "pc": Field(64, 8), "flags": Field(72, 8), "last": Field(80, 8)})  # fmt: skip


class Writer:
    """Writes a program line by line, most of which do what is allowed: it keeps in mind what registers hold on the way straight
    down, which is not what they hold behind a jump."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.holds = {1: "context", 10: "stack"}
        self.moved = dict.fromkeys(range(11), 0)
        self.spilled: dict[int, str] = {}
        self.labels = 0

    def text(self) -> str:
        self.number(0)
        for _ in range(self.rng.randint(3, 14)):
            self.statement()
        if self.holds.get(0) != "number" or self.rng.random() < 0.3:
            self.number(0)
        return "\n".join([*self.lines, "exit"])

    def any_of(self, *kinds: str) -> int | None:
        there = [r for r, kind in self.holds.items() if kind in kinds]
        return self.rng.choice(there) if there else None

    def number(self, register: int) -> None:
        self.lines.append(f"r{register} = {self.rng.choice((0, 1, 8, -1, 40, 4096))}")
        self.holds[register] = "number"

    def free(self) -> int:
        return self.rng.choice([0, 2, 3, 4, 5, 6, 7, 8, 9, 1] if self.rng.random() < 0.2 else [0, 2, 3, 6, 7, 8, 9])

    def statement(self) -> None:
        what = self.rng.choices(
            ["read", "copy", "add", "operate", "spill", "fill", "branch", "join", "helper", "wrong"],
            [30, 8, 10, 15, 6, 10, 16, 5, 6, 2],
        )[0]
        getattr(self, what)()

    def read(self) -> None:
        base = self.any_of("context")
        if base is None:
            return
        size = self.rng.choice((8, 8, 8, 8, 4, 2, 1))
        off = size * self.rng.randrange(REGS.size // size) - self.moved[base]
        to = self.free()
        sign = self.rng.choice("us") if size < 8 else "u"
        self.lines.append(f"r{to} = *({sign}{8 * size} *)(r{base} + {off})")
        self.holds[to] = "number"

    def copy(self) -> None:
        source, to = self.rng.choice(list(self.holds)), self.free()
        self.lines.append(f"r{to} = r{source}")
        self.holds[to], self.moved[to] = self.holds[source], self.moved[source]

    def add(self) -> None:
        base = self.any_of("context")
        if base is None:
            return
        by = 8 * self.rng.randint(-4, 6)
        self.lines.append(f"r{base} {'+' if by >= 0 else '-'}= {abs(by)}")
        self.moved[base] += by

    def operate(self) -> None:
        to, source = self.any_of("number"), self.any_of("number")
        if to is None:
            return
        half = self.rng.choice("rrw")
        second = f"{half}{source}" if self.rng.random() < 0.6 else self.rng.randint(1, 31)
        name = self.rng.choice(["+=", "-=", "*=", "^=", "|=", "&=", ">>=", "s>>=", "<<=", "/=", "%=", "s/=", "s%="])
        self.lines.append(f"{half}{to} {name} {second}")

    def spill(self) -> None:
        source = self.any_of("context", "number")
        if source is None:
            return
        at = -8 * self.rng.randint(1, 4)
        size = 8 if self.holds[source] == "context" else self.rng.choice((8, 8, 4, 1))
        self.lines.append(f"*(u{8 * size} *)(r10 {at:+d}) = r{source}".replace("r10 -", "r10 - ").replace("  ", " "))
        if size == 8:
            self.spilled[at] = self.holds[source]
            self.moved[at] = self.moved[source]
        else:
            self.spilled.pop(at, None)

    def fill(self) -> None:
        if not self.spilled:
            return
        at, to = self.rng.choice(list(self.spilled)), self.free()
        self.lines.append(f"r{to} = *(u64 *)(r10 - {-at})")
        self.holds[to], self.moved[to] = self.spilled[at], self.moved[at]

    def branch(self) -> None:
        """A jump over some statements, or two ways that meet again, of which each leaves a pointer somewhere."""
        on = self.any_of("number")
        if on is None:
            return
        self.labels += 1
        end, other = f"end{self.labels}", f"other{self.labels}"
        half, condition = self.rng.choice("rw"), self.rng.choice(list(CONDITIONS))
        before = dict(self.holds), dict(self.moved), dict(self.spilled)
        self.lines.append(f"if {half}{on} {condition} {self.rng.choice((0, 1, 5, -12))} goto {other}")
        self.some()
        self.lines += [f"goto {end}", f"{other}:"]
        self.holds, self.moved, self.spilled = (dict(b) for b in before)
        self.some()
        self.lines.append(f"{end}:")
        self.holds = {r: kind for r, kind in self.holds.items() if r in before[0]}

    def join(self) -> None:
        """A load that two ways lead to, with different pointers."""
        base, on = self.any_of("context"), self.any_of("number")
        if base is None or on is None:
            return
        self.labels += 1
        end, other = f"end{self.labels}", f"other{self.labels}"
        first, second = (8 * self.rng.randrange(5) - self.moved[base] for _ in range(2))
        another = [f"r{base} = r10", f"*(u64 *)(r10 - 48) = {second}", f"r{base} += -48"] if self.rng.random() < 0.3 else []
        self.lines += [f"if r{on} > 4 goto {other}", f"r{base} += {first}", f"goto {end}", f"{other}:"]
        self.lines += [*(another or [f"r{base} += {second}"]), f"{end}:", f"r{on} = *(u64 *)(r{base} + 0)"]
        del self.holds[base]

    def some(self) -> None:
        for _ in range(self.rng.randint(0, 2)):
            if self.labels < 3:
                self.statement()
            else:
                self.rng.choice((self.read, self.add, self.operate))()

    def helper(self) -> None:
        pointer, kept = self.any_of("context"), {r: k for r, k in self.holds.items() if r > 5}
        kind = self.rng.choice(["time", "who", "copy", "stack"])
        if kind in ("who", "stack") and pointer is not None and self.moved[pointer] == 0:
            self.lines += [f"r1 = r{pointer}"] * (pointer != 1)
            self.lines += ["call bpf_get_func_ip"] if kind == "who" else ["r2 = map 2 ll", "r3 = 0", "call bpf_get_stackid"]
        elif kind == "copy" and pointer is not None:
            self.lines += [f"r3 = r{pointer}"] * (pointer != 3) + ["r1 = r10", "r1 += -48", "r2 = 8", "call bpf_probe_read_kernel"]
            self.spilled[-48] = "number"
            self.moved[-48] = 0
        else:
            self.lines.append("call bpf_ktime_get_ns")
        self.holds = {0: "number", **kept}

    def wrong(self) -> None:
        """What is refused, for different reasons."""
        pointer, number = self.any_of("context"), self.any_of("number")
        if pointer is None or number is None:
            return
        self.lines.append(
            self.rng.choice(
                [
                    f"*(u64 *)(r{pointer} + 0) = r{number}",
                    f"r{pointer} += r{number}",
                    f"r{pointer} *= 2",
                    f"if r{pointer} > r{number} goto +0",
                    f"r{number} = *(u64 *)(r{number} + 0)",
                ]
            )
        )


def any_layout(rng: random.Random) -> Layout:
    """Slots in place, moved together, strewn about, vouched for, and left out."""
    there = slots(REGS)
    room = [8 * n for n in range(40)]
    rng.shuffle(room)
    shift, way = 8 * rng.randint(-1, 6), rng.random()
    places = []
    for slot, free in zip(there, room, strict=False):
        draw = rng.random()
        if draw < 0.04:
            places.append((slot, Nowhere("nobody fills its slot")))
        elif draw < 0.08:
            places.append((slot, Always(rng.choice((0, 7, (1 << 31) + 5, (1 << 64) - 3)) & (1 << 8 * slot.size) - 1)))
        elif way < 0.3:
            places.append((slot, At(slot.offset)))
        elif way < 0.6 and slot.offset + shift >= 0:
            places.append((slot, At(slot.offset + shift)))
        else:
            places.append((slot, At(free if way > 0.6 else 400 + slot.offset)))
    return Layout(tuple(places), REGS.size, 512)


@drawn
@pytest.mark.parametrize("seed", seeds("rewritten", 60))
def test_what_is_accepted_computes_the_same(seed):
    rng = random.Random(seed)
    for _ in range(25):
        before, of = assembled(Writer(rng.getrandbits(64)).text()), any_layout(rng)
        assert decoded(encoded(before)) == before
        after = rewrite(before, of)
        if isinstance(after, Refused):
            continue
        assert len(encoded(after.program)) == len(encoded(before))
        if all(c.after.kind == LDX for c in after.changes):  # of a constant the verifier knows more than of what was loaded
            assert not isinstance(verify(after.program, of.size), Refused)
        for _ in range(4):
            full, light = contexts(of, rng)
            assert run(before, full) == run(after.program, light, address=CONTEXT + 0x10_0000)


def test_a_fair_part_is_accepted_and_every_reason_to_refuse_is_met():
    """Or the test above would say little."""
    rng = random.Random(0)
    met, changed = Counter(), 0
    for _ in range(1500):
        before, of = assembled(Writer(rng.getrandbits(64)).text()), any_layout(rng)
        found = rewrite(before, of)
        met[found.kind if isinstance(found, Refused) else "accepted"] += 1
        changed += isinstance(found, Rewritten) and bool(found.changes)
    assert met["accepted"] > 400 and changed > 150 and met[INVALID] < 500
    assert set(met) >= {*BY_LAYOUT, *BY_PROGRAM} - {RANGE, ESCAPE}  # which have tests of their own


@drawn
@pytest.mark.parametrize("seed", seeds("refused by layout", 30))
def test_what_a_layout_is_blamed_for_is_accepted_without_it(seed):
    rng = random.Random(seed)
    for _ in range(25):
        before = assembled(Writer(rng.getrandbits(64)).text())
        found, there = rewrite(before, any_layout(rng)), rewrite(before, whole(REGS))
        if isinstance(found, Refused) and found.kind in BY_LAYOUT:
            # the reason that is given is the first; a later one may lie in the program
            assert isinstance(there, Rewritten) and there.program == before
        elif isinstance(there, Refused):
            assert found == there


def scrambled(code: bytes, rng: random.Random) -> bytes:
    """With one to three bits turned, or a slot put in place of another."""
    out = bytearray(code)
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.3:
            a, b = (8 * rng.randrange(len(out) // 8) for _ in range(2))
            out[a : a + 8] = out[b : b + 8]
        else:
            at = 8 * rng.randrange(len(out) // 8) + rng.choice((0, 0, 1, 1, 1, 2, 4))  # often where opcodes and registers are
            out[at] ^= 1 << rng.randrange(8)
    return bytes(out)


@drawn
@pytest.mark.parametrize("seed", seeds("scrambled", 40))
def test_scrambled_programs_are_refused_or_compute_the_same(seed):
    """Nothing that nobody would write may end otherwise than in a sentence, or be let through."""
    rng = random.Random(seed)
    for _ in range(40):
        of = any_layout(rng)
        code = scrambled(encoded(assembled(Writer(rng.getrandbits(64)).text())), rng)
        try:
            before = decoded(code)
            after = rewrite(before, of)
        except TramplabError as e:
            assert str(e).startswith("instruction ")
            continue
        if isinstance(after, Rewritten):
            full, light = contexts(of, rng)
            assert run(before, full) == run(after.program, light, address=CONTEXT + 0x10_0000)


def mutated(program, rng):
    """The program with one load's offset wrong by one slot."""
    at = rng.choice([at for at, i in enumerate(program) if i is not None and i.kind == LDX])
    i = program[at]
    return *program[:at], type(i)(i.opcode, i.dst, i.src, i.off + 8, i.imm), *program[at + 1 :]


def test_an_offset_that_is_wrong_is_seen():
    """By the comparison that the tests above rest on."""
    rng, seen = random.Random(1), 0
    before = assembled("r0 = *(u64 *)(r1 + 8)\nr2 = *(u64 *)(r1 + 40)\nr0 ^= r2\nexit")
    for _ in range(20):
        of = Layout(tuple((s, At(200 - s.offset)) for s in slots(REGS)), REGS.size, 512)
        wrong = mutated(rewrite(before, of).program, rng)
        full, light = contexts(of, rng)
        seen += run(before, full) != run(wrong, light)
    assert seen >= 18
