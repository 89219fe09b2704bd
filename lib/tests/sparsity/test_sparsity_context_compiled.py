"""What clang makes of C programs on a struct pt_regs: decoded, rewritten and run, against what the C says of the same registers."""

import random

import pytest
from elftools.elf.elffile import ELFFile

from support.models.contexts import ISAS, contexts, elsewhere, place, saved
from tramplab.build.toolchain import run_tool
from tramplab.sparsity.context import Refused, Rewritten, rewrite
from tramplab.sparsity.context.arithmetic import signed
from tramplab.sparsity.context.encoding import LDX, MEMSX, decoded, encoded
from tramplab.sparsity.context.layout import slots, whole
from tramplab.sparsity.context.programs import registers
from tramplab.sparsity.context.refusal import ESCAPE, INVALID, NUMBER, PATHS, STORE, UNFILLED, VARIABLE
from tramplab.sparsity.context.run import CONTEXT, memory, run

#: BPF's helpers by their numbers, and registers by the names of data/context-programs.yml.
HEAD = """
typedef unsigned long u64; typedef unsigned int u32; typedef unsigned short u16; typedef unsigned char u8;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static long (*const probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static u64 (*const get_func_ip)(void *context) = (void *)173;
"""
#: C by name; what it gives for registers by name; why it is refused where ftrace_caller's structure is all there is.
PROGRAMS = {
    "sum": (
        "return c->argument1 + 3 * c->argument2 - c->argument6;",
        lambda r: r["argument1"] + 3 * r["argument2"] - r["argument6"],
        None,
    ),
    "parts": (
        "return (u16)c->argument1 ^ (long)(signed char)c->argument2 ^ (u32)(c->argument3 >> 32);",
        lambda r: (r["argument1"] & 0xFFFF) ^ signed(r["argument2"], 8) ^ r["argument3"] >> 32,
        None,
    ),
    "narrow": (
        "return *(volatile signed char *)&c->argument2 + ((volatile u16 *)&c->argument3)[1] + *(volatile int *)&c->argument1;",
        lambda r: signed(r["argument2"], 8) + (r["argument3"] >> 16 & 0xFFFF) + signed(r["argument1"], 32),
        None,
    ),
    "signed": (
        "int n = (int)c->argument4; return n < -5 ? n : 7;",
        lambda r: n if (n := signed(r["argument4"], 32)) < -5 else 7,
        None,
    ),
    "branches": (
        "if (c->argument1 > 4095) return c->argument2; if ((long)c->argument3 < 0) return c->sp; return c->ip / 3;",
        lambda r: r["argument2"] if r["argument1"] > 4095 else r["sp"] if r["argument3"] >> 63 else r["ip"] // 3,
        None,
    ),
    "kept": (
        "u64 t = ktime_get_ns(); u64 ip = get_func_ip(c); return t ^ ip ^ c->argument5;",
        lambda r: int.from_bytes(memory(5, 8), "little") ^ int.from_bytes(memory(173, 8), "little") ^ r["argument5"],
        None,
    ),
    "spilled": (
        "struct pt_regs *volatile kept = c; u64 t = ktime_get_ns(); return kept->argument3 - t;",
        lambda r: r["argument3"] - int.from_bytes(memory(5, 8), "little"),
        None,
    ),
    "stack-word": (
        "u64 w; probe_read_kernel(&w, 8, (void *)(c->sp + 8)); return w;",
        lambda r: int.from_bytes(memory(r["sp"] + 8, 8), "little"),
        None,
    ),
    "array": (
        "u64 a[6] = {c->argument1, c->argument2, c->argument3, c->argument4, c->argument5, c->argument6};"
        "u64 x = 0; for (int i = 0; i < 6; i++) x = x * 31 + a[i]; return x;",
        lambda r: sum(r[f"argument{n}"] * 31 ** (6 - n) for n in range(1, 7)),
        None,
    ),
    "flags": ("return c->argument1 & 1 ? c->flags : 0;", lambda r: r["flags"] if r["argument1"] & 1 else 0, UNFILLED),
    "saved": ("return c->saved ^ c->argument1;", lambda r: r["saved"] ^ r["argument1"], UNFILLED),
    "copy": (
        "struct pt_regs r = *c; asm volatile(\"\" : : \"r\"(&r) : \"memory\"); return r.argument2;",
        lambda r: r["argument2"],
        UNFILLED,
    ),
    "indexed": ("return *(u64 *)((char *)c + (c->argument2 & 3) * 8);", None, VARIABLE),
    "address": ("return (u64)c >> 4;", None, NUMBER),
    "stored": ("c->argument1 = 0; return 0;", None, STORE),
    "half-address": ("u64 volatile a = (u64)c; return *(volatile u32 *)&a;", None, ESCAPE),
    "loop": ("u64 x = 0; for (u64 i = 0; i < c->argument1; i++) x += ktime_get_ns(); return x;", None, INVALID),
    "chosen": (
        "asm volatile(\"if %1 > 7 goto 1f; %0 += %2; goto 2f; 1: %0 += %3; 2:\" : \"+r\"(c)"
        " : \"r\"(c->argument3), \"i\"(__builtin_offsetof(struct pt_regs, argument1)),"
        " \"i\"(__builtin_offsetof(struct pt_regs, sp))); return *(u64 *)c;",
        lambda r: r["sp"] if r["argument3"] > 7 else r["argument1"],
        PATHS,
    ),
}  # fmt: skip
#: x86-64's structure has both fields of this where pt_regs has them.
NOT_ON = {("x86_64", "chosen")}
#: Versions of the instruction set: without and with operations of 32 bits; with loads and moves that extend the sign.
VERSIONS = ("v2", "v3", "v4")
every = pytest.mark.parametrize(("isa", "version"), [(isa, version) for isa in ISAS for version in VERSIONS])


def declared(isa: str) -> str:
    """struct pt_regs in C, of what the guest's compiler says of its own, with the names of data/context-programs.yml besides."""
    there, text = place(isa), []
    kinds = {8: "u64", 4: "u32"}
    named: dict[str, list[str]] = {}
    for name, slot in registers(there.isa).items():
        named.setdefault(slot, []).append(name)
    for n, slot in enumerate(slots(there.pt_regs)):
        names = named.get(slot.name, [f"other{n}"])
        members = " ".join(f"{kinds[slot.size]} {name};" for name in names)
        text.append(f"union {{ {members} }};" if len(names) > 1 else members)
    return f"struct pt_regs {{ {' '.join(text)} }};\n_Static_assert(sizeof(struct pt_regs) == {there.pt_regs.size}, \"\");\n"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """(ISA, version of the instruction set) -> programs by name; all in one run of the compiler each, a section per program."""
    folder, known = tmp_path_factory.mktemp("bpf"), {}

    def of(isa: str, version: str) -> dict[str, bytes]:
        if (isa, version) not in known:
            names = list(PROGRAMS)
            functions = [
                f'__attribute__((section("p{n}"))) u64 f{n}(struct pt_regs *c) {{ {text} }}'
                for n, (text, _, _) in enumerate(PROGRAMS.values())
            ]
            (folder / "p.c").write_text("\n".join([HEAD, declared(isa), *functions]), "utf-8")
            flags = ("--target=bpfel", f"-mcpu={version}", "-O2", "-Wall", "-Werror")
            run_tool("clang", *flags, "-c", "p.c", "-o", "p.o", cwd=folder)
            with (folder / "p.o").open("rb") as f:
                elf = ELFFile(f)
                assert not [s for s in elf.iter_sections() if s["sh_type"] == "SHT_REL"]
                known[isa, version] = {name: elf.get_section_by_name(f"p{n}").data() for n, name in enumerate(names)}
        return known[isa, version]

    return of


def held(isa: str, context: bytes) -> dict[str, int]:
    """Registers in a pt_regs, by the names of data/context-programs.yml."""
    there = {s.name: s for s in slots(place(isa).pt_regs)}
    at = {name: there[slot] for name, slot in registers(place(isa).isa).items()}
    return {name: int.from_bytes(context[s.offset : s.offset + s.size], "little") for name, s in at.items()}


@every
def test_compiled_programs_are_decoded_and_encoded_again(compiled, isa, version):
    for code in compiled(isa, version).values():
        assert encoded(decoded(code)) == code


@every
@pytest.mark.parametrize("name", [name for name in PROGRAMS if PROGRAMS[name][1]])
def test_compiled_programs_compute_what_the_c_says(compiled, isa, version, name):
    """On a pt_regs, and rewritten on every structure that serves."""
    before, says, rng = decoded(compiled(isa, version)[name]), PROGRAMS[name][1], random.Random(name)
    for of in (whole(place(isa).pt_regs), saved(isa), elsewhere(place(isa).pt_regs)):
        after = rewrite(before, of)
        for _ in range(10):
            full, light = contexts(of, rng)
            expected = says(held(isa, full)) & (1 << 64) - 1
            assert run(before, full).result == expected
            if isinstance(after, Rewritten):
                assert run(after.program, light, address=CONTEXT + 0x10_0000).result == expected


@every
def test_verdicts_on_compiled_programs(compiled, isa, version):
    def verdict(name: str) -> str | None:
        found = rewrite(decoded(compiled(isa, version)[name]), saved(isa))
        return found.kind if isinstance(found, Refused) else None

    expected = {name: None if (isa, name) in NOT_ON else why for name, (_, _, why) in PROGRAMS.items()}
    assert {name: verdict(name) for name in PROGRAMS} == expected


def test_the_latest_version_has_loads_that_extend_the_sign(compiled):
    """And those before it load and shift."""
    loads = {v: [i for i in decoded(compiled("arm64", v)["narrow"]) if i is not None and i.kind == LDX] for v in VERSIONS}
    assert [i.size for i in loads["v4"]] == [1, 2, 4] and any(i.mode == MEMSX for i in loads["v4"])
    assert not any(i.mode == MEMSX for v in ("v2", "v3") for i in loads[v])
