"""ORC's rules: layouts held against the compiler's unwind data, chains against the return addresses that are truly in use."""

from __future__ import annotations

import functools

import pytest
from elftools.elf.elffile import ELFFile

from support.models import handmade
from tramplab import Kernel
from tramplab.base.errors import TramplabError
from tramplab.ftrace import releases
from tramplab.lab import hooks
from tramplab.unwind import orc
from tramplab.unwind.chain import DOWN, NO_CODE, OUTSIDE, Chain
from tramplab.unwind.layouts import Layout, x86_64
from tramplab.unwind.recovery import TRAMPOLINES
from tramplab.unwind.unwind import watch

RSP, RBP = 7, 6  # as DWARF numbers them


@functools.cache
def kernel(release: str = "v7.2", frame_pointer: bool = False) -> Kernel:
    return Kernel("x86_64", release, frame_pointer=frame_pointer)


# layouts


@pytest.mark.parametrize("frame_pointer", [False, True])
@pytest.mark.parametrize("release", ["v5.17", "v7.2"])
def test_layouts_are_what_the_compiler_says(release, frame_pointer):
    """Before each instruction of every C function; where a register is kept, the compiler says only behind the last push."""
    image = kernel(release, frame_pointer).image
    with image.path.open("rb") as f:
        tables = [e.get_decoded().table for e in ELFFile(f).get_dwarf_info().CFI_entries() if type(e).__name__ == "FDE"]
    functions = {s.address: s for name, s in image.symbols.items() if name in image.prototypes}
    assert len(functions) > 40 and len(tables) >= len(functions)
    compared, saved = 0, 0
    for table in (t for t in tables if t[0]["pc"] in functions):
        own = functions[table[0]["pc"]]
        read = functools.partial(orc._instruction, image)
        # of what assembly in C pushes, the compiler knows nothing
        pushed = {i.address + i.size for i in map(read, x86_64.layouts(read, own.address, own.size)) if i.mnemonic == "pushfq"}
        for address, layout in x86_64.layouts(read, own.address, own.size).items():
            if address in pushed:
                continue
            said = [line for line in table if line["pc"] <= address][-1]
            assert (said["cfa"].reg, said["cfa"].offset) == (RBP if layout.by_frame_pointer else RSP, layout.offset), hex(address)
            if RBP in said and layout.saved is not None:
                assert said[RBP].arg == layout.saved
                saved += 1
            compared += 1
    assert compared > 700 and saved > 20


def test_all_code_has_a_layout():
    """But what pads it, and what comes in a return trampoline before the stack is that of a call."""
    image = kernel().image
    known = orc.of(kernel()).known
    for symbol in image.symbols.values():
        if symbol.size and symbol.name != orc.ROOM and image.component_at(symbol.address):
            address = symbol.address
            for _ in range(TRAMPOLINES.get(symbol.name, 0)):
                address += orc._instruction(image, address).size
            while address < symbol.address + symbol.size:
                i = orc._instruction(image, address)
                assert address in known or i.mnemonic in ("int3", "nop"), (symbol, i)
                address += i.size


def layouts(text: str) -> list[Layout]:
    """Of a function of a few lines, an instruction each."""
    call = handmade.kernel("x86_64")
    start = call.isa.module_base + handmade.OFFSET
    code = handmade.assemble(call.isa, text, start)
    call.machine.poke(start, code)
    found = x86_64.layouts(call.machine.instruction_at, start, len(code))
    return [found[address] for address in sorted(found)]


def sp(offset: int, saved: int | None = None) -> Layout:
    return Layout(False, offset, saved)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("sub rsp, 0x18\n add rsp, 0x18\n ret", [sp(8), sp(32), sp(8)]),
        ("push rbx\n pushfq\n popfq\n pop rbx\n ret", [sp(8), sp(16), sp(24), sp(16), sp(8)]),
        ("push rbp\n mov ebp, 7\n pop rbp\n ret", [sp(8), sp(16, -16), sp(16, -16), sp(8)]),
        ("push rbp\n mov rbp, rsp\n push rbx\n leave\n ret", [sp(8), sp(16, -16), orc.RECORD, orc.RECORD, sp(8)]),
        ("push rbp\n mov rbp, rsp\n lea rsp, [rbp - 8]\n leave\n ret", [sp(8), sp(16, -16), orc.RECORD, orc.RECORD, sp(8)]),
        # kept in a slot, and given back from there
        (
            "sub rsp, 0x10\n mov qword ptr [rsp + 8], rbp\n mov rbp, qword ptr [rsp + 8]\n add rsp, 0x10\n ret",
            [sp(8), sp(24), sp(24, -16), sp(24), sp(8)],
        ),
        # both ways lead to the same stack; cmp does not write
        ("cmp rbp, 0\n je f\n push rax\n pop rax\n f: ret", [sp(8), sp(8), sp(8), sp(16), sp(8)]),
        # a call into the function itself, whose return address is dropped; the int3 behind it never runs
        ("call f\n int3\n f: add rsp, 8\n ret", [sp(8), sp(16), sp(8)]),
        # an indirect jump out is the end
        ("jmp rax\n push rax\n ret", [sp(8)]),
    ],
)
def test_layouts_by_hand(text, expected):
    assert layouts(text) == expected


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("je f\n push rax\n f: ret", "depends on the way there"),
        ("and rsp, -16\n ret", "moves the stack pointer in a way that is in no rule"),
        ("mov rbp, rsp\n ret", "overwrites the caller's frame pointer, which is kept nowhere"),
        ("push rbp\n push rax\n pop rbp\n pop rax\n ret", "does not give back the caller's frame pointer"),
    ],
)
def test_a_stack_that_cannot_be_worked_out(text, complaint):
    with pytest.raises(TramplabError, match=complaint):
        layouts(text)


# chains

HOOKS = (
    ("none", 1),
    ("ops", 1),
    ("ops", 2),
    ("ops-regs", 1),
    ("direct", 1),
    ("direct+ops", 1),
    ("bpf-fentry", 1),
    ("bpf-fexit", 1),
    ("bpf-fmodret", 1),
    ("fprobe", 1),
)


def boundaries(name: str, callbacks: int, release: str):
    k = kernel(release)
    function = k.function("two_args")
    with k.attached(function, *hooks.requests(hooks.get(name), callbacks)):
        return watch(k, k.function("calls_others"), function, 1, 2, 3)


@pytest.mark.parametrize("release", releases.shown())
@pytest.mark.parametrize("name, callbacks", HOOKS)
def test_orc_finds_every_return_address_in_use(name, callbacks, release):
    """In order and nothing else, as calls and returns tell them, wherever it need not guess. A call into its own function, which
    ftrace_regs_caller makes for the return stack, is none to come back from: what lies behind it is an int3."""
    if not kernel(release).features[hooks.get(name).needs]:
        pytest.skip(f"{release} has no {name}")
    run, seen = boundaries(name, callbacks, release)
    image = kernel(release).image
    never = {a for b in seen for a in b.truth if image.where(a) and orc._instruction(image, a).mnemonic == "int3"}
    assert len(never) <= (name == "direct+ops") and all(image.where(a).startswith("ftrace_regs_caller+") for a in never)
    sure = [b for b in seen if not b.by_orc.guessed]
    assert len(sure) >= (1 if name.startswith("bpf") else 5)
    for b in sure:
        used = [address for address in b.truth[:-1] if address not in never]  # the outermost stands there twice
        assert b.by_orc == Chain((b.pc, *used)), run.name_of(b.pc)
    guesses = {b.pc for b in seen if b.by_orc.guessed}
    assert bool(guesses) == name.startswith("bpf")


def test_a_guess_is_where_the_frame_of_generated_code_is_not_there():
    """From its first byte to behind mov rbp, rsp, and from behind leave on; there it skips the function and its caller."""
    run, seen = boundaries("bpf-fentry", 1, "v7.2")
    inside = [b for b in seen if run.symbol_of(b.pc).startswith("bpf_trampoline")]
    texts = [run.instructions[b.pc].text for b in inside]
    first, last = texts.index("mov rbp, rsp"), texts.index("leave")
    assert [b.by_orc.guessed for b in inside] == [n <= first or n > last for n in range(len(inside))]
    assert all(set(b.truth[:2]).isdisjoint(b.by_orc.addresses) for b in inside if b.by_orc.guessed)


def test_a_copy_is_looked_up_where_it_was_copied_from():
    k = kernel()
    with k.attached(k.function("two_args"), *hooks.requests(hooks.get("ops-regs"), 1)):
        known = orc.of(k)
        (copy,) = known.copies
        assert copy.original == k.image.address("ftrace_regs_caller")
        assert known.layout(copy.address + 0x20) == known.known[copy.original + 0x20] == sp(0xB8)
        assert known.layout(copy.address + copy.size) is None  # the word behind it
    assert orc.of(k).layout(copy.address + 0x20) is None


def test_what_has_no_orc_data():
    """Other ISAs, and kernels that are unwound by frame pointers; of trampolines that no kernel has nothing is known."""
    assert orc.of(Kernel("arm64")) is None and orc.of(kernel(frame_pointer=True)) is None
    k = kernel()
    with k.attached(k.function("two_args"), *hooks.requests(hooks.get("ops-live"), 1)) as (ops,):
        assert orc.of(k).layout(ops.trampoline) is None


LOW, HIGH = 0x1000, 0x1100
PC, BACK, OUTER = 0x1, 0x22, 0x44


@pytest.mark.parametrize(
    "words, fp, layout, expected",
    [
        ({0x1018: BACK}, 0, sp(0x20), Chain((PC, BACK), OUTSIDE, True)),  # what lies behind it is a guess by fp
        ({0x1018: BACK, 0x1028: OUTER}, 0x1020, sp(0x20), Chain((PC, BACK, OUTER), OUTSIDE, True)),
        ({0x1018: BACK, 0x1010: 0x1030, 0x1038: OUTER}, 7, sp(0x20, -16), Chain((PC, BACK, OUTER), OUTSIDE, True)),
        ({0x1018: BACK}, 0x1000, sp(0x20), Chain((PC, BACK), DOWN, True)),
        ({0x1018: 0x99}, 0, sp(0x20), Chain((PC,), NO_CODE)),
        ({}, 0, sp(0x108), Chain((PC,), OUTSIDE)),
        ({}, 0, None, Chain((PC,), OUTSIDE, True)),
    ],
)
def test_chains_by_hand(words, fp, layout, expected):
    """A stack of a few words; only the innermost function's layout is known, if any."""
    image = kernel().image
    known = orc.Orc(image, {} if layout is None else {PC: layout})

    def read(address: int) -> int | None:
        return words.get(address, 0) if LOW <= address < HIGH else None

    registers = {"rip": PC, "rsp": LOW, "rbp": fp}
    chain = known.unwind(registers, read, lambda address: address in (BACK, OUTER))
    assert chain == expected


@pytest.mark.parametrize("release, guessed", [("v6.18", True), ("v6.19", False)])
def test_in_bpfs_code_a_record_was_a_guess(release, guessed):
    """Up to v6.18; since then only before it is made, and when it is undone."""
    of = kernel(release)
    with of.attached(of.function("two_args"), *hooks.requests(hooks.get("bpf-fentry"), 1)):
        _, boundaries = watch(of, "calls_others", "two_args", 1, 2, 3)
    inside = [b for b in boundaries if (of.names()(b.pc) or "").startswith("lab_bpf_count")]
    assert inside and all(b.by_orc.guessed == guessed for b in inside)
