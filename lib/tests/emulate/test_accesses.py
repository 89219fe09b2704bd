"""What is known of instructions beyond those that the guest has: the tables of accesses, and no guess where they end."""

import pytest

from tramplab import Kernel
from tramplab import isa as isas
from tramplab.base.errors import TramplabError
from tramplab.build.assemble import assemble
from tramplab.emulate import decode
from tramplab.emulate.counting import counters, counts

#: Assembly, registers before, and loads, stores, bytes loaded and bytes stored. The pointer is to a zeroed scratch
#: area.
TABLE = {
    "x86_64": [
        ("push qword ptr [rdi]; pop rax", (2, 1, 16, 8)),
        ("push rdi; pop qword ptr [rdi]", (1, 2, 8, 16)),
        ("pushfq; popfq", (1, 1, 8, 8)),
        ("mov byte ptr [rdi], al", (0, 1, 0, 1)),
        ("mov word ptr [rdi + 2], 7", (0, 1, 0, 2)),
        ("mov eax, dword ptr [rdi]", (1, 0, 4, 0)),
        ("movzx eax, byte ptr [rdi]; movsx rax, word ptr [rdi]; movsxd rax, dword ptr [rdi]", (3, 0, 7, 0)),
        ("add qword ptr [rdi], 1; lock inc dword ptr [rdi]", (2, 2, 12, 12)),
        ("xchg qword ptr [rdi], rax; lock xadd qword ptr [rdi], rax", (2, 2, 16, 16)),
        ("cmp qword ptr [rdi], 0; test byte ptr [rdi], 1", (2, 0, 9, 0)),
        ("cmove rax, qword ptr [rdi]; sete byte ptr [rdi]", (1, 1, 8, 1)),
        ("imul rax, qword ptr [rdi], 3; not dword ptr [rdi]", (2, 1, 12, 4)),
        ("lea rax, [rdi + 8]; nop dword ptr [rdi]", (0, 0, 0, 0)),
        ("push rbp; mov rbp, rsp; leave", (1, 1, 8, 8)),
    ],
    "arm64": [
        ("ldp x1, x2, [x0]; stp w1, w2, [x0]", (2, 2, 16, 8)),
        ("ldpsw x1, x2, [x0]; ldnp w1, w2, [x0]", (4, 0, 16, 0)),
        ("ldrb w1, [x0]; ldrsh x1, [x0, #2]; ldrsw x1, [x0, #4]; ldur x1, [x0, #1]", (4, 0, 15, 0)),
        ("strb w1, [x0]; strh w1, [x0, #2]; str w1, [x0, #4]; stur x1, [x0, #1]", (0, 4, 0, 15)),
        ("ldar x1, [x0]; stlr w1, [x0]; ldarb w1, [x0]; stlrh w1, [x0]", (2, 2, 9, 6)),
        ("ldxr x1, [x0]; ldaxrb w1, [x0]; clrex", (2, 0, 9, 0)),
        ("stp x0, xzr, [sp, #-16]!; ldr x1, [sp], #16", (1, 2, 8, 16)),
        ("prfm pldl1keep, [x0]; adr x1, #8; mrs x1, sp_el0; isb; dmb ish", (0, 0, 0, 0)),
    ],
    "riscv64": [
        (
            "lb a1, 0(a0); lbu a1, 1(a0); lh a1, 2(a0); lhu a1, 2(a0); lw a1, 4(a0); lwu a1, 4(a0); ld a1, 8(a0)",
            (7, 0, 22, 0),
        ),
        ("sb a1, 0(a0); sh a1, 2(a0); sw a1, 4(a0); sd a1, 8(a0)", (0, 4, 0, 15)),
        ("c.ld a1, 0(a0); c.sd a1, 8(a0); c.lw a1, 0(a0); c.sw a1, 4(a0)", (2, 2, 12, 12)),
        (
            "addi sp, sp, -16; c.sdsp a0, 8(sp); c.ldsp a1, 8(sp); c.swsp a0, 0(sp); c.lwsp a1, 0(sp); addi sp, sp, 16",
            (2, 2, 12, 12),
        ),
        ("amoadd.d a1, a1, (a0); amoswap.w.aqrl a1, a1, (a0)", (2, 2, 12, 12)),
        ("lr.d a1, (a0); lr.w.aq a1, (a0)", (2, 0, 12, 0)),
        ("ld a1, 1(a0); fence rw, rw; fence.i; auipc a1, 1", (1, 0, 8, 0)),
    ],
}
SNIPPETS = [(isa, source, expected) for isa, rows in TABLE.items() for source, expected in rows]
PROLOGUE = {"x86_64": [], "arm64": [], "riscv64": [".option arch, +c"]}


@pytest.mark.parametrize(
    ("isa", "source", "expected"), SNIPPETS, ids=[f"{i}-{s.split(';')[0]}" for i, s, _ in SNIPPETS]
)
def test_access_tables(isa, source, expected):
    """Instructions that the guest does not use yet: the tables say what the architecture says and what the memory hook
    sees when they are executed."""
    k = Kernel(isa)
    m, at = k.machine, k.isa.module_base + 0x8000
    lines = [*PROLOGUE[isa], *(part.strip() for part in source.split(";")), "ret"]
    m.poke(at, assemble(k.isa, "\n".join(lines), at))
    raw = m.call(at, {k.isa.args[0]: k.memory(0, 0, 0, 0)})
    instructions = {pc: m.instruction_at(pc) for pc in raw.tally.issued}
    made = counts.count(k.isa, raw.tally, instructions, lambda _: "core", lambda _: "snippet").total
    back = {"x86_64": (1, 0, 8, 0)}.get(isa, (0, 0, 0, 0))  # x86's ret loads
    assert (made.loads, made.stores, made.load_bytes, made.store_bytes) == tuple(
        a + b for a, b in zip(expected, back, strict=True)
    )
    events = raw.events.tolist()
    kinds = [[size for _, _, _, size, kind in events if kind == which] for which in (counters.LOAD, counters.STORE)]
    assert (len(kinds[0]), len(kinds[1]), sum(kinds[0]), sum(kinds[1])) == (
        made.loads,
        made.stores,
        made.load_bytes,
        made.store_bytes,
    )
    assert made.instructions == len([e for e in events if e[4] == counters.INSTRUCTION])


#: Bytes of instructions whose accesses depend on registers, are wider than a word, or that no table has.
REFUSED = [
    ("x86_64", "f2ae", "repne scasb"),
    ("x86_64", "f3a6", "repe cmpsb"),
    ("x86_64", "a4", "movsb"),
    ("x86_64", "a6", "cmpsb"),
    ("x86_64", "ac", "lodsb"),
    ("x86_64", "0f1007", "movups"),
    ("x86_64", "660f6f07", "movdqa"),
    ("x86_64", "f30f6f07", "movdqu"),
    ("x86_64", "f20f1007", "movsd"),
    ("x86_64", "480fc70f", "cmpxchg16b"),
    ("x86_64", "0fae07", "fxsave"),
    ("x86_64", "dd07", "fld"),
    ("x86_64", "0f0117", "lgdt"),
    ("x86_64", "c8100000", "enter"),
    ("x86_64", "cb", "retf"),
    ("x86_64", "d7", "xlatb"),
    ("arm64", "20740bd5", "dc zva"),
    ("arm64", "417ca0c8", "cas"),
    ("arm64", "410020f8", "ldadd"),
    ("arm64", "418020f8", "swp"),
    ("arm64", "0070400c", "ld1"),
    ("arm64", "41087fc8", "ldxp"),
    ("arm64", "2000c03d", "ldr q0"),
    ("arm64", "200040fd", "ldr d0"),
    ("arm64", "200440ad", "ldp q0"),
    ("arm64", "200480ac", "stp q0"),
    ("riscv64", "07350500", "fld"),
    ("riscv64", "27b0a500", "fsd"),
]


@pytest.mark.parametrize(("isa", "data", "text"), REFUSED, ids=[f"{i}-{t}" for i, _, t in REFUSED])
def test_no_guess_at_an_instruction_in_no_table(isa, data, text):
    """Rather than count it wrongly, decoding refuses: the message has the instruction, its address and where to add
    it."""
    record, code = isas.get(isa), bytes.fromhex(data)
    assert decode.at(record, 0x1000, code).text.startswith(text)
    with pytest.raises(TramplabError) as e:
        decode.known_accesses(record, 0x1000, code)
    message = str(e.value)
    assert text in message and "0x1000" in message and f"accesses.{isa}" in message
    assert "\n" not in message and message.endswith(".")


@pytest.mark.parametrize(
    ("isa", "data"), [("riscv64", "ffffffff"), ("arm64", "ffffffff"), ("x86_64", "0f04"), ("x86_64", "06")]
)
def test_bytes_that_are_no_instruction(isa, data):
    """Bytes that nothing decodes raise too, with the bytes and the address."""
    with pytest.raises(TramplabError, match=rf"{data}.*0x1000.*no {isa} instruction"):
        decode.known_accesses(isas.get(isa), 0x1000, bytes.fromhex(data))


def test_a_run_with_such_an_instruction_has_no_counts():
    """The same from end to end: a function that searches with `repne scasb` runs, but its counts are refused, not
    guessed."""
    k = Kernel("x86_64")
    f = k.function("one_arg")
    k.machine.poke(f.site.body, assemble(k.isa, "xor ecx, ecx\nrepne scasb\nret", f.site.body))
    run = k.call(f, 1)
    with pytest.raises(TramplabError, match=r"repne scasb.*0x[0-9a-f]+.*accesses\.x86_64"):
        _ = run.counts


@pytest.mark.parametrize("meter", ["count", "record"])
@pytest.mark.parametrize("rounds", [0, 1, 6])
def test_a_string_instruction_is_one_instruction_with_the_accesses_of_its_rounds(meter, rounds):
    """The engine reports each round of `rep stosq`; it is one instruction that stores that often, and no branch."""
    k = Kernel("x86_64", meter=meter)
    f = k.function("calls_others")
    code = f"mov ecx, {rounds}\nlea rdi, [rsp - 128]\nxor eax, eax\nrep stosq\nret"
    k.machine.poke(f.site.body, assemble(k.isa, code, f.site.body))
    run = k.call(f, 1)
    made = run.counts.by_component["function"]
    assert (made.instructions, made.stores, made.store_bytes, made.loads) == (5, rounds, 8 * rounds, 1)
    assert made.branches_taken == 1  # the RET
    if meter == "record":
        own = [s for s in run.steps if f.site.body <= s.pc < f.address + f.size]
        assert len(own) == 5 and [len(s.accesses) for s in own] == [0, 0, 0, rounds, 1]
