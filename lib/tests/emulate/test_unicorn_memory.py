"""What Unicorn does with memory, translated code and state, as tests against the pinned version.

As in test_unicorn_behaviour.py, where the table of architectures is, each test states what this
version does and says which decision of the lab rests on it.
"""

import ctypes
import mmap
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import unicorn
from unicorn import arm64_const as a64
from unicorn import riscv_const as rv
from unicorn import unicorn_const as uc_const
from unicorn import x86_const as x86

from support.models.unicorns import (
    ARM64,
    ISAS,
    PAGE,
    RISCV64,
    ROUTINE,
    SENTINEL,
    X86_64,
    Isa,
    accesses,
    block_sizes,
    engine,
    every_isa,
    issued,
    run,
)

READ, WRITE, EXEC = uc_const.UC_PROT_READ, uc_const.UC_PROT_WRITE, uc_const.UC_PROT_EXEC
GS_BASE_MSR = 0xC000_0101
SP_EL0 = (3, 0, 4, 1, 0)  # op0, op1, crn, crm, op2
hooked_or_not = pytest.mark.parametrize("hooked", [False, True], ids=["no-hook", "hooks"])


def word(code: bytes) -> int:
    """The first eight bytes as the value that `store` writes."""
    return int.from_bytes(code[:8], "little")


def add_hooks(uc: unicorn.Uc, isa: Isa) -> None:
    """Hooks of every kind that the meters use."""
    issued(uc, isa)
    block_sizes(uc)
    accesses(uc)


# --- Addresses and protection ------------------------------------------------------------------


@every_isa
def test_kernel_addresses(isa: Isa) -> None:
    """Images are linked and run at kernel addresses, so every machine sets UC_TLB_VIRTUAL. Only
    x86 cannot do without (its default mode cuts addresses off); one rule for all is simpler."""
    uc = engine(isa, isa.twice)
    uc.reg_write(isa.word, SENTINEL)
    assert run(uc, isa, isa.twice) == uc_const.UC_ERR_OK
    assert uc.reg_read(isa.value) == 7
    assert uc.mem_read(isa.data + 0x100, 8) == SENTINEL.to_bytes(8, "little")
    uc = engine(isa, isa.twice, virtual_tlb=False)
    assert run(uc, isa, isa.twice) == isa.default_tlb_error


@every_isa
@hooked_or_not
def test_protection(isa: Isa, hooked: bool) -> None:
    """Sections are mapped with their ELF permissions and a wild guest store into text is a fault
    that is reported; metering must not switch that off."""

    def ends(code: bytes, text_perms: int, data_perms: int, pointer: int) -> int:
        uc = engine(isa, code)
        if hooked:
            add_hooks(uc, isa)
        uc.mem_protect(isa.text, PAGE, text_perms)
        uc.mem_protect(isa.data, PAGE, data_perms)
        uc.reg_write(isa.pointer, pointer)
        return run(uc, isa, code)

    rx, rw = READ | EXEC, READ | WRITE
    assert ends(isa.store, rx, rw, isa.data) == uc_const.UC_ERR_OK
    assert ends(isa.store, rx, rw, isa.text + 0x800) == uc_const.UC_ERR_WRITE_PROT
    assert ends(isa.store, rx, rx, isa.data) == uc_const.UC_ERR_WRITE_PROT
    assert ends(isa.load, rx, WRITE, isa.data) == uc_const.UC_ERR_READ_PROT
    assert ends(isa.nop, rw, rw, isa.data) == uc_const.UC_ERR_FETCH_PROT


@every_isa
@hooked_or_not
def test_protection_of_executed_text(isa: Isa, hooked: bool) -> None:
    """Permissions may be tightened on text that has run (a freed trampoline): it faults then."""
    uc = engine(isa, isa.twice)
    if hooked:
        add_hooks(uc, isa)
    assert run(uc, isa, isa.twice) == uc_const.UC_ERR_OK
    uc.mem_protect(isa.text, PAGE, READ | WRITE)
    assert run(uc, isa, isa.twice) == uc_const.UC_ERR_FETCH_PROT


# --- Writes to executed text -------------------------------------------------------------------


@every_isa
@hooked_or_not
def test_guest_store_is_seen_by_next_block(isa: Isa, hooked: bool) -> None:
    """Unicorn is more coherent than hardware: without fence.i or isb a stored instruction runs at
    the next call. A missing barrier can therefore not show; the lab models the instruction cache
    itself."""
    uc = engine(isa, isa.twice)
    if hooked:
        add_hooks(uc, isa)
    uc.reg_write(isa.pointer, isa.text + ROUTINE)
    uc.reg_write(isa.word, word(isa.nine))
    assert run(uc, isa, isa.twice) == uc_const.UC_ERR_OK
    assert (uc.reg_read(isa.kept), uc.reg_read(isa.value)) == (7, 9)


@every_isa
@hooked_or_not
@pytest.mark.parametrize("barrier", [False, True], ids=["plain", "barrier"])
def test_guest_store_into_own_block(isa: Isa, barrier: bool, hooked: bool) -> None:
    """Within one block it is the other way round: on arm64 and riscv64 the old bytes run to the
    end of the block, and isb or fence.i help because they end it. That is an accident of
    translation, no cache model, so guest code never patches its own block."""
    program = isa.store + (isa.sync if barrier else isa.nop) + 5 * isa.nop
    uc = engine(isa, program)
    if hooked:
        add_hooks(uc, isa)
    uc.reg_write(isa.pointer, isa.text + 2 * len(isa.nop))
    uc.reg_write(isa.word, word(isa.copy + 2 * isa.nop))
    uc.reg_write(isa.value, SENTINEL)
    assert run(uc, isa, program) == uc_const.UC_ERR_OK
    assert uc.reg_read(isa.kept) == (SENTINEL if barrier or isa.sees_own_store else 0)
    assert run(uc, isa, program) == uc_const.UC_ERR_OK
    assert uc.reg_read(isa.kept) == SENTINEL


@every_isa
def test_single_step_of_store_into_own_block(isa: Isa) -> None:
    """Whoever steps must expect a pc that does not move: a count=1 step of a store into its own
    block never completes on x86. Elsewhere stepping shows the new bytes, a whole run the old."""
    program = isa.store + 5 * isa.nop
    unit = len(isa.nop)
    uc = engine(isa, program)
    uc.reg_write(isa.pointer, isa.text + unit)
    uc.reg_write(isa.word, word(isa.copy + 2 * isa.nop))
    uc.reg_write(isa.value, SENTINEL)
    uc.reg_write(isa.pc, isa.text)
    for _ in range(2):
        uc.emu_start(uc.reg_read(isa.pc), isa.text + len(program), count=1)
    stuck = isa.sees_own_store
    assert uc.reg_read(isa.pc) - isa.text == (0 if stuck else 2 * unit)
    assert uc.reg_read(isa.kept) == (0 if stuck else SENTINEL)
    assert uc.mem_read(isa.text + unit, unit) == (isa.nop if stuck else isa.copy)


Refresh = Callable[[unicorn.Uc, int], None]
refreshes = pytest.mark.parametrize(
    "refresh",
    [
        pytest.param(lambda uc, at: uc.ctl_remove_cache(at, at + 8), id="remove_cache"),
        pytest.param(lambda uc, at: uc.ctl_remove_cache(at, at + 1), id="remove_cache-one-byte"),
        pytest.param(lambda uc, at: uc.ctl_flush_tb(), id="flush_tb"),
    ],
)


@every_isa
@hooked_or_not
@refreshes
def test_host_write_is_stale_between_runs(isa: Isa, refresh: Refresh, hooked: bool) -> None:
    """Text is written with `poke()` (write, then remove_cache), never with mem_write alone: the
    old bytes would go on running, whatever is done to the page's permissions."""
    uc = engine(isa, isa.twice)
    if hooked:
        add_hooks(uc, isa)
    run(uc, isa, isa.twice)
    uc.mem_write(isa.text + ROUTINE, isa.nine)
    run(uc, isa, isa.twice)
    assert uc.reg_read(isa.value) == 7
    uc.mem_protect(isa.text, PAGE, READ | EXEC)
    uc.mem_protect(isa.text, PAGE, READ | WRITE | EXEC)
    run(uc, isa, isa.twice)
    assert uc.reg_read(isa.value) == 7
    refresh(uc, isa.text + ROUTINE)
    run(uc, isa, isa.twice)
    assert (uc.reg_read(isa.kept), uc.reg_read(isa.value)) == (9, 9)


@every_isa
@pytest.mark.parametrize("refreshed", [False, True], ids=["bare", "remove_cache"])
def test_host_write_is_stale_inside_hook(isa: Isa, refreshed: bool) -> None:
    """A patch step may be taken from a hook in mid-run; it needs the same `poke()`."""
    uc = engine(isa, isa.twice)
    routine, between = isa.text + ROUTINE, isa.text + len(isa.call)

    def patch(uc: unicorn.Uc, *_: object) -> None:
        uc.mem_write(routine, isa.nine)
        if refreshed:
            uc.ctl_remove_cache(routine, routine + 8)

    uc.hook_add(uc_const.UC_HOOK_CODE, patch, begin=between, end=between)
    run(uc, isa, isa.twice)
    assert (uc.reg_read(isa.kept), uc.reg_read(isa.value)) == (7, 9 if refreshed else 7)


@every_isa
def test_host_write_is_stale_for_single_steps(isa: Isa) -> None:
    """The interleaving search steps threads over a changing patch site: `poke()` there too."""
    uc = engine(isa, isa.nop)
    routine = isa.text + ROUTINE

    def step() -> int:
        uc.emu_start(routine, routine + 0x100, count=1)
        return uc.reg_read(isa.value)

    assert step() == 7
    uc.mem_write(routine, isa.nine)
    assert step() == 7
    uc.ctl_remove_cache(routine, routine + 8)
    assert step() == 9


@every_isa
def test_block_before_until_is_never_stale(isa: Isa) -> None:
    """A test of `poke()` must patch a routine that is called, not the last instruction before the
    end address: the block there is translated anew in every run and hides the mistake."""
    code = isa.seven[: isa.first]
    uc = engine(isa, code)
    run(uc, isa, code)
    uc.mem_write(isa.text, isa.nine[: isa.first])
    run(uc, isa, code)
    assert uc.reg_read(isa.value) == 9


@every_isa
def test_empty_cache_range_is_refused(isa: Isa) -> None:
    """There is no `poke()` of nothing: remove_cache(a, a) is an error, not a no-op."""
    uc = engine(isa, isa.nop)
    with pytest.raises(unicorn.UcError):
        uc.ctl_remove_cache(isa.text, isa.text)


@every_isa
@pytest.mark.parametrize("refreshed_through", ["text", "alias"])
def test_store_through_alias_is_stale(isa: Isa, refreshed_through: str) -> None:
    """text_poke() and the arm64 fixmap write through a second mapping. Done by guest code this
    leaves text stale, so patch steps end in remove_cache; the address of either mapping will do."""
    alias = isa.data + 0x10000
    buffer = mmap.mmap(-1, PAGE)
    host = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    uc = engine(isa, isa.nop)
    uc.mem_unmap(isa.text, PAGE)
    uc.mem_map_ptr(isa.text, PAGE, READ | EXEC, host)
    uc.mem_map_ptr(alias, PAGE, READ | WRITE, host)
    buffer[: len(isa.twice)] = isa.twice
    buffer[ROUTINE : ROUTINE + 8] = isa.seven
    uc.reg_write(isa.pointer, alias + ROUTINE)
    uc.reg_write(isa.word, word(isa.nine))
    assert run(uc, isa, isa.twice) == uc_const.UC_ERR_OK
    assert uc.mem_read(isa.text + ROUTINE, 8) == isa.nine
    assert (uc.reg_read(isa.kept), uc.reg_read(isa.value)) == (7, 7)
    at = {"text": isa.text, "alias": alias}[refreshed_through] + ROUTINE
    uc.ctl_remove_cache(at, at + 8)
    run(uc, isa, isa.twice)
    assert (uc.reg_read(isa.kept), uc.reg_read(isa.value)) == (9, 9)


# --- State -------------------------------------------------------------------------------------


@every_isa
def test_context_has_no_memory(isa: Isa) -> None:
    """A snapshot of the search is a context plus the bytes it watches: restoring a context brings
    registers back and leaves memory as it is."""
    uc = engine(isa, isa.store)
    uc.reg_write(isa.word, SENTINEL)
    context = uc.context_save()
    assert run(uc, isa, isa.store) == uc_const.UC_ERR_OK
    uc.reg_write(isa.word, 0)
    uc.context_restore(context)
    assert uc.reg_read(isa.word) == SENTINEL
    assert uc.mem_read(isa.data + 0x100, 8) == SENTINEL.to_bytes(8, "little")


BASES = [  # isa, how the host sets `current`, guest code that loads from it + 0x10
    pytest.param(
        X86_64, lambda uc, base: uc.reg_write(x86.UC_X86_REG_GS_BASE, base),
        "65488b042510000000",  # mov rax, gs:[0x10]
        id="x86_64-GS_BASE",
    ),
    pytest.param(
        X86_64, lambda uc, base: uc.msr_write(GS_BASE_MSR, base),
        "65488b042510000000",  # mov rax, gs:[0x10]
        id="x86_64-MSR",
    ),
    pytest.param(
        ARM64, lambda uc, base: uc.cpr_write(*SP_EL0, base),
        "004138d5 000840f9",  # mrs x0, sp_el0; ldr x0, [x0, #0x10]
        id="arm64-cpr_write",
    ),
    pytest.param(
        ARM64, lambda uc, base: uc.reg_write(a64.UC_ARM64_REG_SP_EL0, base),
        "004138d5 000840f9",  # mrs x0, sp_el0; ldr x0, [x0, #0x10]
        id="arm64-SP_EL0",
    ),
    pytest.param(
        RISCV64, lambda uc, base: uc.reg_write(rv.UC_RISCV_REG_TP, base),
        "03350201",  # ld a0, 16(tp)
        id="riscv64-TP",
    ),
]  # fmt: skip


@pytest.mark.parametrize("isa, set_base, code", BASES)
def test_current_is_set_from_outside(isa: Isa, set_base: Callable[[unicorn.Uc, int], None], code: str) -> None:
    """`current` lives in gs, sp_el0 and tp: the machine sets it before a call, the guest reads
    it, a context carries it, and the stack pointer is not touched by it."""
    program = bytes.fromhex(code)
    uc = engine(isa, program)
    uc.mem_write(isa.data + 0x10, SENTINEL.to_bytes(8, "little"))
    set_base(uc, isa.data)
    context = uc.context_save()
    set_base(uc, 0)
    uc.context_restore(context)
    assert run(uc, isa, program) == uc_const.UC_ERR_OK
    assert uc.reg_read(isa.value) == SENTINEL
    assert uc.reg_read(isa.sp) == isa.data + 0x800


def test_sp_el0_is_set_by_guest() -> None:
    """A context switch in guest code (`msr sp_el0`) is seen by the host."""
    program = bytes.fromhex("014118d5")  # msr sp_el0, x1
    uc = engine(ARM64, program)
    uc.reg_write(ARM64.word, SENTINEL)
    assert run(uc, ARM64, program) == uc_const.UC_ERR_OK
    assert uc.cpr_read(*SP_EL0) == SENTINEL
    assert uc.reg_read(ARM64.sp) == ARM64.data + 0x800


@pytest.mark.parametrize(
    "name, code, value",
    [
        pytest.param("x86_64", "0f20d8", 0, id="mov rax, cr3"),  # ring 0, or it would trap
        pytest.param("arm64", "404238d5", 1 << 2, id="mrs x0, CurrentEL"),  # EL1
        pytest.param("arm64", "004238d5", 1, id="mrs x0, spsel"),  # sp is SP_EL1
        pytest.param("riscv64", "732540f1", 0, id="csrr a0, mhartid"),  # M-mode, or it would trap
    ],
)
def test_privilege(name: str, code: str, value: int) -> None:
    """Guest code runs privileged from the start, so `current` needs no set-up code. On RISC-V that
    is M-mode, not the kernel's S-mode; the lab's code does not depend on the difference."""
    isa, program = ISAS[name], bytes.fromhex(code)
    uc = engine(isa, program)
    uc.reg_write(isa.value, SENTINEL)
    assert run(uc, isa, program) == uc_const.UC_ERR_OK
    assert uc.reg_read(isa.value) == value


def test_riscv_x0_keeps_a_host_write() -> None:
    """Register dumps print x0 as 0 and the machine never writes it: the host would read back what
    it wrote, the guest would not."""
    program = bytes.fromhex("13050000")  # mv a0, zero
    uc = engine(RISCV64, program)
    uc.reg_write(rv.UC_RISCV_REG_X0, SENTINEL)
    uc.reg_write(RISCV64.value, SENTINEL)
    assert run(uc, RISCV64, program) == uc_const.UC_ERR_OK
    assert uc.reg_read(rv.UC_RISCV_REG_X0) == SENTINEL
    assert uc.reg_read(RISCV64.value) == 0


def test_huge_pages_are_left_to_others():
    """As the system says of a process, and of one that it starts."""
    status = Path("/proc/self/status")
    if not status.exists() or "THP_enabled" not in status.read_text("utf-8"):
        pytest.skip("this system does not say who gets huge pages")
    program = """if True:
        import ctypes, subprocess, sys
        from tramplab.emulate import engine
        asked = "print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('THP_enabled')), flush=True)"
        ctypes.CDLL(None).prctl(engine._THP_DISABLE, 0, 0, 0, 0)  # what started this has none
        exec(asked)
        engine.small_pages()
        exec(asked)
        subprocess.run([sys.executable, "-c", asked], check=True)
    """
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, encoding="utf-8").stdout
    assert told.split() == ["1", "0", "0"]
