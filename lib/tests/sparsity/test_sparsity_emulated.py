"""Instructions that a kprobe emulates on a pt_regs: what the emulated CPU itself does with the same registers and stack."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings

from support.models.register_lab import MASK, ROLES, WORD, lab
from support.plugins.seeds import drawn, seeds
from tramplab.isa import ISAS
from tramplab.sparsity.consumers.consumers import CONSUMERS, INSTRUCTIONS
from tramplab.sparsity.structures.fields import PT_REGS, places

every_isa = pytest.mark.parametrize("isa", ISAS)


def x86_64(name: str, rng: random.Random) -> tuple[bytes, int | None]:
    """Jcc rel8, CALL rel32, PUSH of any register (Intel SDM vol. 2)."""
    if name == "emulate-branch":
        return bytes([0x70 + rng.randrange(16), rng.randrange(256)]), None
    if name == "emulate-call":
        return b"\xe8" + rng.randrange(-1 << 14, 1 << 14).to_bytes(4, "little", signed=True), None
    return rng.choice([b"", b"\x41"]) + bytes([0x50 + rng.randrange(8)]), None


def arm64(name: str, rng: random.Random) -> tuple[bytes, int | None]:
    """B.cond, BL, ADD (immediate) of any registers, sp among them (Arm ARM, C6.2)."""
    if name == "emulate-branch":
        word = 0x54000000 | rng.randrange(-1 << 11, 1 << 11) % (1 << 19) << 5 | rng.randrange(16)
    elif name == "emulate-call":
        word = 0x94000000 | rng.randrange(-1 << 12, 1 << 12) % (1 << 26)
    else:
        word = 0x91000000 | rng.randrange(1 << 23)
    return word.to_bytes(4, "little"), None


def riscv64(name: str, rng: random.Random) -> tuple[bytes, int | None]:
    """Any of the six branches, JALR, ADDI, of any registers (unprivileged ISA, 2.4 and 2.5)."""
    r = rng.randrange
    if name == "emulate-branch":
        offset = r(16) << 8 | r(128) << 25 | r(2) << 7
        return (0x63 | offset | rng.choice([0, 1, 4, 5, 6, 7]) << 12 | r(32) << 15 | r(32) << 20).to_bytes(4, "little"), None
    source, code = r(1, 32), 0x67 if name == "emulate-call" else 0x13
    word = code | r(32) << 7 | source << 15 | r(1 << 12) << 20
    return word.to_bytes(4, "little"), source if name == "emulate-call" else None


#: Per ISA, who draws an instruction for a consumer, and says which register it jumps through, if it does.
CHOSEN = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}
#: How the CPU's registers are called that fields hold, where not as the fields.
CPU = {
    "x86_64": {"ip": "rip", "flags": "eflags", **{n: f"r{n}" for n in "ax bx cx dx si di bp sp".split()}},
    "arm64": {"pstate": "nzcv"},
    "riscv64": {"epc": "pc"},
}
#: Fields that hold no register of the CPU.
NO_REGISTER = {"orig_ax", "cs", "ss", "orig_x0", "syscallno", "unused", "sdei_ttbr1", "pmr_save", "lockdep_hardirqs", "exit_rcu"}
NO_REGISTER |= {"stackframe[0]", "stackframe[1]", "status", "badaddr", "cause", "orig_a0"}
#: What a state can be that a CPU is put into: conditions, and on x86-64 the bit that is always 1.
CONDITIONS = {"x86_64": (0x8D5, 2), "arm64": (0xF << 28, 0), "riscv64": (0, 0)}


@drawn
@every_isa
@pytest.mark.parametrize("name", ["emulate-branch", "emulate-call", "emulate-step"])
def test_emulated_instructions_do_what_the_cpu_does(isa, name, request):
    """Whatever the instruction, its registers and the condition flags: the same registers after it, and the same stack."""
    the = lab(isa)
    machine, cpu = the.machine, CPU[isa]
    code, sp = machine.places.modules.address + 0x8000, the.stack + 256
    fixed = {r: machine.register(r) for r in the.kernel.isa.fixed}
    ip, status = ROLES[isa][2], ROLES[isa][5]
    for seed in seeds(request.node.name, settings.default.max_examples):
        rng = random.Random(seed)
        instruction, through = CHOSEN[isa](name, rng)
        few_values = [rng.getrandbits(64) for _ in range(3)]
        fields = {p.name: rng.choice(few_values) for p in places(the.kernel.image, PT_REGS) if p.size == WORD}
        allowed, always = CONDITIONS[isa]
        fields |= {ip: code, "sp": sp, status: rng.getrandbits(64) & allowed | always}
        if through:  # somewhere that there is memory
            fields[places(the.kernel.image, PT_REGS)[through].name] = code + rng.randrange(1 << 12)
        the.put(PT_REGS, bytes(512), **fields)
        machine.write(the.stack, bytes(512))
        before = the.held(PT_REGS)
        said = the.read(name, number=int.from_bytes(instruction, "little"))
        emulated, memory = the.held(PT_REGS), machine.read(the.stack, 512)
        machine.write(the.stack, bytes(512))
        machine.poke(code, instruction)
        try:
            for field in before.keys() - NO_REGISTER - {ip}:
                machine.set_register(cpu.get(field, field), before[field])
            assert machine.step(0, code)
            done = {f: machine.register(cpu.get(f, f)) for f in before.keys() - NO_REGISTER}
        finally:
            for register, value in fixed.items():
                machine.set_register(register, value)
        assert {f: emulated[f] for f in done} == done, (instruction.hex(), before)
        assert memory == machine.read(the.stack, 512)
        # and nothing else was written, nor said to have been
        assert {f for f in emulated if emulated[f] != before[f]} <= set(said.wrote)
        assert not set(said.wrote) & (NO_REGISTER | {status})


@every_isa
def test_the_nop_of_a_patch_site_moves_ip_and_nothing_else(isa):
    the = lab(isa)
    ip = ROLES[isa][2]
    the.put(PT_REGS, random.Random(isa).randbytes(512))
    before = the.held(PT_REGS)
    found = the.read("emulate-nop")
    site = {"x86_64": 5, "arm64": 4, "riscv64": 4}[isa]
    assert the.held(PT_REGS) == {**before, ip: before[ip] + site & MASK}
    assert (found.fields, found.wrote) == ((ip,), (ip,))


def test_the_instructions_are_those_that_are_told():
    texts = {
        "x86_64": ["je 0x10", "call 0x100", "push rbx"],
        "arm64": ["b.eq #0x10", "bl #0x100", "add x0, x19, #1"],
        "riscv64": ["beq a0, s1, 0x10", "jalr s1", "addi a0, s1, 1"],
    }
    for isa, known in INSTRUCTIONS.items():
        the = lab(isa)
        at = the.machine.places.modules.address
        for code, text in zip(known.values(), texts[isa], strict=True):
            the.machine.poke(at, code.to_bytes(WORD, "little"))
            found = the.machine.instruction_at(at).text
            assert found.replace(hex(at + 0x10), "0x10").replace(hex(at + 0x100), "0x100") == text
        assert set(known) == {c.name for c in CONSUMERS.values() if c.number == "the instruction"}
