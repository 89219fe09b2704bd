"""What the lab rests on in the pinned Unicorn, most of which its documentation does not promise.

Each test states what this version does, right or wrong, and the code that depends on it. One that fails after an upgrade means:
look at that code again first, then change the test. Machine code stands as bytes beside its assembly.
"""

from typing import NamedTuple

import pytest
import unicorn

from tramplab.emulate.engine import ACCESS, CODE, PAGE, Engine, Stopped
from tramplab.isa import ISAS

ROUTINE = 0x40  # from the start of text: where `calls` lead
VALUE = 0x5A5A5A5A5A5A5A5A


class Snippets(NamedTuple):
    """Of one ISA: nop, load and store have one length; `calls` call the routine, keep what it returns in the second register of
    `returned`, and call it again; seven and nine are two bodies of the routine, of eight bytes."""

    nop: bytes
    load: bytes
    store: bytes
    calls: bytes
    seven: bytes
    nine: bytes
    pointer: str  # address of load and store
    word: str  # what is stored
    returned: tuple[str, str]


SNIPPETS = {
    "x86_64": Snippets(
        nop=bytes.fromhex("0f1f00"),  # nop dword ptr [rax]
        load=bytes.fromhex("488b07"),  # mov rax, [rdi]
        store=bytes.fromhex("488937"),  # mov [rdi], rsi
        calls=bytes.fromhex("e83b000000 4889c3 488937 e830000000"),  # call; mov rbx, rax; mov [rdi], rsi; call
        seven=bytes.fromhex("b807000000 c3 9090"),  # mov eax, 7; ret; nop; nop
        nine=bytes.fromhex("b809000000 c3 9090"),
        pointer="rdi",
        word="rsi",
        returned=("rax", "rbx"),
    ),
    "arm64": Snippets(
        nop=bytes.fromhex("1f2003d5"),
        load=bytes.fromhex("400040f9"),  # ldr x0, [x2]
        store=bytes.fromhex("410000f9"),  # str x1, [x2]
        calls=bytes.fromhex("10000094 e50300aa 410000f9 0d000094"),  # bl; mov x5, x0; str x1, [x2]; bl
        seven=bytes.fromhex("e00080d2 c0035fd6"),  # mov x0, #7; ret
        nine=bytes.fromhex("200180d2 c0035fd6"),
        pointer="x2",
        word="x1",
        returned=("x0", "x5"),
    ),
    "riscv64": Snippets(
        nop=bytes.fromhex("13000000"),
        load=bytes.fromhex("03350600"),  # ld a0, 0(a2)
        store=bytes.fromhex("2330b600"),  # sd a1, 0(a2)
        calls=bytes.fromhex("ef000004 93070500 2330b600 ef004003"),  # jal ra; mv a5, a0; sd a1, 0(a2); jal ra
        seven=bytes.fromhex("13057000 67800000"),  # li a0, 7; ret
        nine=bytes.fromhex("13059000 67800000"),
        pointer="a2",
        word="a1",
        returned=("a0", "a5"),
    ),
}
every_isa = pytest.mark.parametrize("isa", ISAS)


class Cpu(Engine):
    """With some code at the start of text, the routine behind it, and a page of data that the pointer leads to."""

    def __init__(self, isa: str, code: bytes, writable: bool = False) -> None:
        super().__init__(ISAS[isa])
        self.of, self.text, self.code = SNIPPETS[isa], self.isa.text_base, code
        self.data = self.text + 0x10000
        self.map(self.text, PAGE, writable=writable, executable=True)
        self.map(self.data, PAGE, writable=True, executable=False)
        self.write(self.text, code)
        self.write(self.text + ROUTINE, self.of.seven)
        self.set_register(self.isa.sp, self.data + 0x800)
        self.set_register(self.of.pointer, self.data + 0x100)

    def go(self) -> "Cpu":
        """Run the code to its end."""
        self.start(self.text, self.text + len(self.code))
        return self

    def seen(self) -> list[tuple[int, int]]:
        """The list that a hook fills from now on with where in text each instruction is, and the size that it is told."""
        found: list[tuple[int, int]] = []
        self.hook(CODE, lambda _uc, pc, size, _data: found.append((pc - self.text, size)))
        return found

    def accessed(self) -> list[str]:
        """The same with accesses: R8 is a load of eight bytes."""
        found: list[str] = []
        self.hook(ACCESS, lambda _uc, kind, _at, size, *_: found.append(f"{'W' if kind == unicorn.UC_MEM_WRITE else 'R'}{size}"))
        return found

    def both(self) -> tuple[int, int]:
        """What the first call of the routine returned, and the second."""
        second, first = map(self.register, self.of.returned)
        return first, second


def test_version():
    """What is written down here was seen of this one."""
    assert unicorn.__version__ == "2.1.4"


# -- hooks


@every_isa
def test_an_instruction_that_faults_was_reported_once_and_none_behind_it(isa):
    """The meter counts by this hook, and names the instruction of a fault by what it counted last."""
    of = SNIPPETS[isa]
    cpu, unit = Cpu(isa, 2 * of.nop + of.load + 2 * of.nop), len(of.nop)
    cpu.set_register(of.pointer, 0x10)
    seen = cpu.seen()
    with pytest.raises(Stopped):
        cpu.go()
    assert seen == [(n * unit, unit) for n in range(3)] and cpu.invalid_access == ("read of", 0x10)
    assert cpu.register(cpu.isa.pc) == cpu.text + 2 * unit


@every_isa
@pytest.mark.parametrize("meter_first", [True, False], ids=["meter-stop", "stop-meter"])
def test_what_a_hook_stops_at_is_not_executed_and_hooks_behind_it_do_not_see_it(isa, meter_first):
    """A spent budget stops a run so, before it counts; Traps.watch() adds its hook behind the meter, which counts it."""
    of = SNIPPETS[isa]
    cpu, unit = Cpu(isa, 6 * of.nop), len(of.nop)
    seen = cpu.seen() if meter_first else []
    cpu.hook_at(cpu.text + 2 * unit, cpu.stop)
    seen = seen if meter_first else cpu.seen()
    cpu.go()
    assert [at for at, _ in seen] == [0, unit, 2 * unit][: 3 if meter_first else 2]
    assert cpu.register(cpu.isa.pc) == cpu.text + 2 * unit


@pytest.mark.parametrize(
    ("isa", "code"),
    [
        pytest.param("x86_64", "f30f1efa", id="endbr64"),
        pytest.param("x86_64", "f3480faee8", id="incsspq rax"),
        pytest.param("arm64", "5f2403d5", id="bti c"),
        pytest.param("arm64", "3f2303d5", id="paciasp"),
        pytest.param("arm64", "bf2303d5", id="autiasp"),
        pytest.param("arm64", "ff2003d5", id="xpaclri"),
        pytest.param("riscv64", "0100", id="c.nop"),
    ],
)
def test_landing_pads_and_pointer_authentication_are_one_instruction_that_does_nothing(isa, code):
    """They are counted, return addresses stay plain, and taken branches are told by pc + size."""
    cpu = Cpu(isa, bytes.fromhex(code))
    cpu.set_general({name: VALUE + n for n, name in enumerate(cpu.isa.registers)})
    before, seen = cpu.registers(), cpu.seen()
    after = cpu.go().registers()
    assert seen == [(0, len(cpu.code))] and after == before | {cpu.isa.pc: cpu.text + len(cpu.code)}


@pytest.mark.parametrize("rounds", [0, 1, 10])
def test_a_repeated_instruction_is_reported_for_each_round_and_for_its_end(rounds):
    """counts.py makes one instruction of it."""
    cpu = Cpu("x86_64", bytes.fromhex("90 f3a4 90"))  # nop; rep movsb; nop
    cpu.set_general({"rsi": cpu.data, "rcx": rounds})
    seen = cpu.seen()
    cpu.go()
    assert [at for at, _ in seen] == [0, *[1] * (rounds + 1), 3]


@every_isa
def test_a_hook_that_is_added_late_is_not_called_until_translations_are_dropped(isa):
    """Whoever adds one calls forget_all() behind it."""
    cpu = Cpu(isa, SNIPPETS[isa].calls).go()
    seen, accessed = cpu.seen(), cpu.accessed()
    cpu.go()
    assert not {0, ROUTINE} & {at for at, _ in seen}
    cpu.forget_all()
    seen.clear(), accessed.clear()
    cpu.go()
    assert [at for at, _ in seen].count(ROUTINE) == 2 and accessed.count("W8") == (3 if isa == "x86_64" else 1)  # CALL pushes


@pytest.mark.parametrize(
    ("isa", "code", "events"),
    [
        pytest.param("x86_64", "f0480fc70f", "R8 R8 W8 W8", id="lock cmpxchg16b [rdi]"),
        pytest.param("x86_64", "0f1007", "R8 R8", id="movups xmm0, [rdi]"),
        pytest.param("arm64", "400440ad", "R8 R8 R8 R8", id="ldp q0, q1, [x2]"),
        pytest.param("arm64", "401040f8", "R8", id="ldur x0, [x2, #1]"),
        pytest.param("arm64", "407c5fc8 417c04c8", "R8 R8 W8", id="ldxr; stxr"),  # the second load is not the guest's
        pytest.param("arm64", "417c04c8", "", id="stxr that fails"),
        pytest.param("riscv64", "2f350610 2f37b618", "R8 R8 W8", id="lr.d; sc.d"),
        pytest.param("riscv64", "2f37b618", "", id="sc.d that fails"),
    ],
)
def test_an_access_is_reported_in_pieces_of_at_most_eight_bytes(isa, code, events):
    """Loads and stores are counted by decoding, as Counts defines them; recordings, and tests, have these."""
    cpu = Cpu(isa, bytes.fromhex(code))
    accessed = cpu.accessed()
    cpu.go()
    assert accessed == events.split()


# -- text


@every_isa
@pytest.mark.parametrize("hooked", [False, True], ids=["no-hook", "hooks"])
def test_what_is_written_to_text_is_not_executed_until_its_translation_is_dropped(isa, hooked):
    """Memory.poke() drops it, of the bytes that it writes; of one byte that is enough for all that was translated with it."""
    cpu = Cpu(isa, SNIPPETS[isa].calls)
    routine, of = cpu.text + ROUTINE, cpu.of
    if hooked:
        cpu.seen(), cpu.accessed()
    for new in (of.nine, of.seven):
        old = cpu.go().both()
        cpu.write(routine, new)
        assert cpu.go().both() == old
        changed = next(n for n, (a, b) in enumerate(zip(of.seven, of.nine, strict=True)) if a != b)
        cpu.forget(routine + changed, 1)
        assert cpu.go().both() == ((9, 9) if new is of.nine else (7, 7))


@every_isa
@pytest.mark.parametrize("dropped", [False, True])
def test_so_it_is_for_what_a_hook_writes(isa, dropped):
    """A step of a patch may be taken while a CPU runs."""
    cpu = Cpu(isa, SNIPPETS[isa].calls)

    def patch():
        cpu.write(cpu.text + ROUTINE, cpu.of.nine)
        if dropped:
            cpu.forget(cpu.text + ROUTINE, 8)

    cpu.hook_at(cpu.text + cpu.code.index(cpu.of.store), patch)
    assert cpu.go().both() == (7, 9 if dropped else 7)


@every_isa
def test_what_a_guest_stores_to_text_is_executed_at_the_next_call(isa):
    """Sooner than hardware, which needs a barrier: so the lab models fetches itself (races/), and the method page says so."""
    cpu = Cpu(isa, SNIPPETS[isa].calls, writable=True)
    cpu.set_register(cpu.of.pointer, cpu.text + ROUTINE)
    cpu.set_register(cpu.of.word, int.from_bytes(cpu.of.nine, "little"))
    assert cpu.go().both() == (7, 9)


def test_translations_of_nothing_cannot_be_dropped():
    """Memory.poke() of no bytes does nothing at all."""
    cpu = Cpu("arm64", SNIPPETS["arm64"].calls).go()
    with pytest.raises(unicorn.UcError):
        cpu.forget(cpu.text, 0)


# -- state


@every_isa
def test_a_saved_state_has_special_registers_and_no_memory(isa):
    """CPUs that take turns keep `current` and their data in theirs; memory is put back by Pages."""
    cpu = Cpu(isa, SNIPPETS[isa].store)
    own = [*(name for name, _ in cpu.isa.bases), cpu.of.word]
    for n, name in enumerate(own):
        cpu.set_register(name, VALUE + n)
    saved = cpu.save()
    cpu.go()
    for name in own:
        cpu.set_register(name, 0)
    cpu.restore(saved)
    assert [cpu.register(name) for name in own] == [VALUE + n for n in range(len(own))]
    assert int.from_bytes(cpu.read(cpu.data + 0x100, 8), "little") == VALUE + len(own) - 1
