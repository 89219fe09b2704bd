"""Kernels that somebody has built, with DWARF and without BTF, made by the compiler."""

import random
import struct
from pathlib import Path

import pytest

from support.complaints import complaint
from support.vmlinux.kernels import BASES, Part, changed, content, vmlinux
from support.vmlinux.small_kernels import LOADED, OPS, X86, memory, opened, refused, section
from tramplab.base.errors import TramplabError
from tramplab.build.dwarf import Field, Prototype, Value
from tramplab.build.toolchain import run_tool
from tramplab.isa import get

_SOURCE = """
typedef unsigned long ulong;
struct pair { long a, b; };
struct ftrace_ops {
    ulong flags;
    volatile int x : 3, : 8, y : 5;
    struct { const char *name; union { int a; char b[6]; }; };
    int grid[2][3];
};
enum { FTRACE_OPS_FL_RCU = 1 << 14, FTRACE_FL_ENABLED = 1 << 31, LOWEST = -5 };
struct last { int n; struct ftrace_ops *next; const char more[]; };
int (*const pointer)(int, ...) = 0;
const char linux_banner[] = "Linux version 6.12.7-small (who@where) (clang) #1 SMP\\n";
struct ftrace_ops ops = { .name = linux_banner };
struct last other = { .next = &ops };
static inline int hidden(int a) { return a + 1; }
__attribute__((noinline)) int bpf_fentry_test1(int a) { return hidden(a); }
struct pair both(struct pair by_value, const struct pair *by_pointer) { by_value.a += by_pointer->b; return by_value; }
void released(union either { int *a; long b; } u) { other.n = *u.a; }
void nothing(char c, ...) { other.n = c; }
int declared(int a);
int calls(void) { return declared(ops.flags & FTRACE_OPS_FL_RCU ? 3 : LOWEST); }
int declared(int a) { return a; }
"""
_SCRIPT = """
SECTIONS {
    . = BASE;
    .text : { _text = .; _stext = .; *(.text*) _etext = .; }
    .rodata : { *(.rodata*) }
    .data : { *(.data*) *(.bss*) }
    .rela.dyn : { *(.rela*) }
    /DISCARD/ : { *(.comment .eh_frame .note* .interp .dynamic .dynsym .dynstr .hash .gnu.hash) }
}
"""
_BUILDS = {
    "x86_64": ("-gdwarf-4 -mcmodel=kernel -mno-red-zone", "-static"),
    "arm64": ("-gdwarf-5", "-shared -Bsymbolic -z notext --no-apply-dynamic-relocs"),
}


@pytest.fixture(scope="module", params=_BUILDS)
def built(request, tmp_path_factory) -> bytes:
    """A vmlinux with DWARF and no BTF, by the compiler; the one for arm64 can be moved."""
    folder, isa = tmp_path_factory.mktemp("own build"), get(request.param)
    flags, link = _BUILDS[isa.name]
    (folder / "kernel/trace").mkdir(parents=True)
    (folder / "kernel/trace/ftrace.c").write_text(_SOURCE, "utf-8")
    (folder / "other.c").write_text("struct elsewhere { int a; }; struct elsewhere elsewhere;\n", "utf-8")
    (folder / "link.ld").write_text(_SCRIPT.replace("BASE", hex(BASES[isa.name])), "utf-8")
    common = f"--target={isa.triple} -O1 -ffreestanding -fno-pic {flags}".split()
    for source in ("kernel/trace/ftrace.c", "other.c"):
        run_tool("clang", *common, "-c", source, "-o", f"{Path(source).stem}.o", cwd=folder)
    run_tool("ld.lld", *link.split(), "-T", "link.ld", "other.o", "ftrace.o", "-o", "vmlinux", cwd=folder)
    return (folder / "vmlinux").read_bytes()


def test_an_own_build_with_dwarf(built, place):
    kernel = opened(place, built)
    assert kernel.version == "6.12.7-small" and kernel.image.origin.types == "DWARF"
    assert kernel.struct("ftrace_ops") == OPS and list(kernel.struct("ftrace_ops").fields) == list(OPS.fields)
    last = kernel.struct("last")
    assert last.size == 16 and last.fields["more"] == Field(16, 0)
    assert kernel.types.has("pair", "b") and not kernel.types.has("pair", "c") and not kernel.types.has("elsewhere")
    assert kernel.image.symbols["bpf_fentry_test1"].size > 0 and kernel.has("elsewhere")


def test_prototypes_from_dwarf(built, place):
    prototype = opened(place, built).prototype
    assert prototype("bpf_fentry_test1") == Prototype("bpf_fentry_test1", (Value(4),), Value(4))
    assert prototype("both") == Prototype("both", (Value(16, True), Value(8)), Value(16, True))
    assert prototype("nothing") == Prototype("nothing", (Value(1),), Value(0))
    assert prototype("released") == Prototype("released", (Value(8, True, True),), Value(0))
    assert prototype("declared") == Prototype("declared", (Value(4),), Value(4))
    assert prototype("hidden") and prototype("absent") is None


def test_enumerators_from_dwarf(built, place):
    enumerator = opened(place, built).types.enumerator
    assert enumerator("FTRACE_OPS_FL_RCU") == 1 << 14 and enumerator("FTRACE_FL_ENABLED") == 1 << 31
    assert enumerator("LOWEST") == (1 << 32) - 5 and enumerator("FTRACE_OPS_FL_RCU_TOO") is None


def test_the_pointers_of_an_own_build_are_in_place(built, place):
    kernel = opened(place, built)
    at = kernel.address("ops") + kernel.struct("ftrace_ops").fields["name"].offset
    assert int.from_bytes(memory(kernel, at, 8), "little") == kernel.address("linux_banner")


def test_a_struct_that_dwarf_does_not_have(built, place):
    kernel = opened(place, built)
    said = complaint(lambda: kernel.struct("ftrace_op")).replace(str(place), "FILE")
    assert said == "FILE has no struct 'ftrace_op' (did you mean ftrace_ops?): give another name, or a kernel that has it."


def test_debug_info_that_cannot_be_read(built, place):
    header, start, _ = section(built, ".debug_info")
    flags = int.from_bytes(built[header + 8 : header + 16], "little")
    said = refused(place, changed(built, header + 8, "<Q", flags | 0x800))
    assert said == (
        "the debug info of FILE is compressed: run `objcopy --decompress-debug-sections FILE OUT` and give what comes out."
    )
    said = refused(place, built.replace(b"kernel/trace/ftrace.c", b"kernel/trace/ftrace.h"))
    assert said.startswith("the debug info of FILE does not cover kernel/trace/ftrace.c: give a vmlinux with CONFIG_FUNCTION_")
    for version, why in ((9, "it is DWARF of version 9"), (1, "it is DWARF of version 1")):
        said = refused(place, changed(built, start + 4, "<H", version))
        assert said == f"the debug info of FILE is damaged ({why}): get the whole file again."
    assert "it is 64-bit DWARF" in refused(place, changed(built, start, "<I", 0xFFFFFFFF))


def test_garbled_debug_info(built, place):
    """It is read, or there is a sentence, when the file is opened or when something is asked."""
    rng, refusals = random.Random(5), 0
    parts = [section(built, name) for name in (".debug_info", ".debug_abbrev")]
    for n in range(150):
        _, start, size = parts[n % 2]
        at = start + rng.randrange(size - 4)
        try:
            kernel = opened(place, changed(built, at, "<B" if n % 3 else "<I", rng.randrange(256)))
            for name in ("ftrace_ops", "last", "pair"):
                kernel.types.has(name, "next")
            for name in ("both", "nothing"):
                kernel.prototype(name)
        except TramplabError as e:
            assert str(place) in str(e) and "\n" not in str(e) and str(e).endswith(".") and ". " not in str(e)
            refusals += 1
    assert 10 < refusals < 140


def test_debug_info_that_goes_in_circles(place):
    """Two structs of which each says that the other one comes next, as the linker of sections may never do."""
    abbreviations = bytes([1, 0x11, 1, 0x03, 0x08, 0, 0, 2, 0x13, 1, 0x01, 0x13, 0x03, 0x08, 0x0B, 0x0B, 0, 0, 0])
    unit = struct.pack("<HIB", 4, 0, 8) + b"\1kernel/trace/ftrace.c\0"
    first = 4 + len(unit)
    one = struct.pack("<BI4sBB", 2, first + 11, b"one\0", 8, 0)
    unit += one + struct.pack("<BI4sBB", 2, first, b"two\0", 8, 0) + bytes(2)
    parts = [Part(".debug_info", struct.pack("<I", len(unit)) + unit), Part(".debug_abbrev", abbreviations)]
    made = content(X86)
    data = vmlinux("x86_64", [(X86, LOADED, bytes(made.data).replace(b"\x9f\xeb\1\0", bytes(4)), 0)], parts)
    kernel = opened(place, data)
    said = complaint(lambda: kernel.struct("one")).replace(str(place), "FILE")
    assert said == "the debug info of FILE is damaged (an entry is behind itself): get the whole file again."
    straight = opened(place, changed(data, data.index(b"two\0") - 4, "<I", first + 22))
    assert straight.struct("one").size == straight.struct("two").size == 8
