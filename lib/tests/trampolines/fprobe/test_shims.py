"""Shims: a kretprobe's handlers on an fprobe write what they wrote before, and broken ones are noticed."""

import functools

import pytest

from support.abi.shimmed import complaints, record
from support.mutants.mutants import Mutant, broken, of
from support.plugins.seeds import drawn, seeds
from tramplab import Fprobe, Kernel, Kretprobe, TramplabError
from tramplab.isa import ISAS
from tramplab.returns import migration
from tramplab.returns.migration import BEFORE, SHIMS, Told
from tramplab.sparsity.structures import fields
from tramplab.sparsity.structures.registers import register_of

every_isa = pytest.mark.parametrize("isa", ISAS)


@functools.cache
def kernel(isa: str) -> Kernel:
    return Kernel(isa)


@functools.cache
def tells(isa: str, teller: str) -> Told:
    return migration.told(kernel(isa), teller)


def shared(isa: str, shim: str) -> frozenset[str]:
    """Registers that a kretprobe and a shim tell."""
    return tells(isa, BEFORE).registers & tells(isa, shim).registers


@drawn
@every_isa
@pytest.mark.parametrize("shim", SHIMS)
@pytest.mark.parametrize("entry", [False, True], ids=["return", "both"])
def test_an_old_handler_writes_the_same_record_under_a_shim(isa, shim, entry):
    """Of what the shim tells, in calls with any registers and any stack; and the caller finds what it should."""
    for seed in seeds(f"shim {isa} {shim} {entry}", 8):
        told = shared(isa, shim)
        assert complaints(kernel(isa), shim, seed, told, entry) == [], f"seed {seed}"


@drawn
@every_isa
def test_what_functions_keep_is_lost_and_reads_otherwise(isa):
    """Each of them, in some call."""
    names = {register_of(kernel(isa).isa, p.name): p.name for p in fields.places(kernel(isa).image, "pt_regs")}
    differs = set()
    for seed in seeds(f"lost {isa}", 8):
        before, after = (record(kernel(isa), migration.request(kernel(isa), t, observe=True), seed)[1] for t in (BEFORE, "all"))
        differs |= {n for n in before if before[n] != after[n]}
    assert {names[r] for r in migration.REGISTERS["kept"](kernel(isa).isa)} <= differs


@every_isa
def test_a_declined_return_is_not_seen(isa):
    made = Kernel(isa)
    function = made.function("two_args")
    for probe in (Fprobe(exit=True, declines=True, shim="value"), Kretprobe(entry=True, declines=True, breakpoint=True)):
        with made.attached(function, probe):
            assert made.call(function, 1, 2).hits == (1,)


@every_isa
def test_what_an_old_handler_writes_reaches_the_caller_where_the_structure_is_the_trampolines(isa):
    made = Kernel(isa)
    function, first = made.function("two_args"), made.isa.returns[0]
    (value,) = (p for p in fields.places(made.image, "pt_regs") if register_of(made.isa, p.name) == first)

    def changed(teller):
        def writes():
            made.machine.write_u64(made.machine.register(made.isa.args[1]) + value.offset, 77)

        with (
            made.attached(function, migration.request(made, teller)),
            made.machine.watching(made.image.address("lab_kretprobe_exit"), writes),
        ):
            return made.call(function, 1, 2).value == 77

    assert changed(BEFORE) and changed("all") == (isa == "x86_64")


@every_isa
def test_all_of_it_is_given_back(isa):
    made = Kernel(isa)
    free, text = list(made.heap._free), made.machine.read(made.function("two_args").address, 32)
    made.detach(*made.attach(made.function("two_args"), Fprobe(exit=True, shim="all")))
    assert made.heap._free == free and made.machine.read(made.function("two_args").address, 32) == text


def test_a_shim_that_cannot_be_says_why():
    made = Kernel("arm64")
    asked = {
        "did you mean": {"shim": "al"},
        "leave bpf= and link= out": {"shim": "all", "link": "fregs"},
        "leave observe= or declines= out": {"shim": "all", "declines": True, "observe": True},
        "one function; 2 were named": {"shim": "all", "filter": ("two_args", "one_arg")},
    }
    for words, how in asked.items():
        with pytest.raises(TramplabError, match=words):
            made.attach(made.function("two_args"), Fprobe(exit=True, **how))
    with pytest.raises(TramplabError, match=r"is on one function; \d+ were named"):
        made.attach(None, Fprobe(exit=True, shim="all"))
    with pytest.raises(TramplabError, match="have no shims"):
        old = Kernel("x86_64", "v6.12")
        old.attach(old.function("two_args"), Fprobe(exit=True, shim="all"))


C, H = "consumers/shims.c", "include/shims.h"
MUTANTS = [
    *of(
        "arm64",
        "v7.2",
        "where",
        C,
        ("another sp", "LAB_SP(regs) = LAB_SHIM_STACK(fregs)", "LAB_SP(regs) = (unsigned long)fregs"),
        ("no ip", "LAB_IP(regs) = ret_ip; ", ""),
        ("no kprobe named", "	this_pcpu->current_kprobe = &shim->rp.kp;\n", ""),
        ("its turn for good", "	this_pcpu->current_kprobe = before;\n", "	(void)before;\n"),
        ("no arguments at the entry", "SHIM(where, lab_partial(fregs, regs), ", "SHIM(where, , "),
        ("the entry's answer dropped", "	return answer;\n", "	return !answer;\n"),
    ),
    *of(
        "arm64",
        "v7.2",
        "value",
        H,
        ("no value", "	regs->regs[0] = FREGS_X(f, 0);\n", ""),
        ("no owner", "ri->rph = &shim->owner;", ";"),
    ),
    *of("arm64", "v7.2", "all", C, ("all is nothing", "lab_shim_all(fregs, regs); ", "")),
    *of(
        "riscv64",
        "v7.2",
        "value",
        H,
        ("no second word", "	regs->a1 = FREGS_ARG(f, 1);\n", ""),
        ("no return address", "	ri->node.ret_addr = ret_addr;\n", ""),
    ),
    *of(
        "x86_64",
        "v7.2",
        "all",
        H,
        ("user mode kept", "	lab_fill_most(f, regs);\n	regs->flags |= FLAGS_FIXED;\n", ""),
        ("no owner", "ri->node.rethook = &shim->owner;", ";"),
    ),
]


def noticed(mutant: Mutant, made: Kernel) -> bool:
    """Do the handlers' records, the caller or the consumers find something wrong?"""
    told = shared(mutant.isa, mutant.hook)
    try:
        if any(complaints(made, mutant.hook, seed, told, entry) for seed in (2, 5) for entry in (False, True)):
            return True
        current = made.cpus[0].pcpu + made.image.struct("lab_pcpu").fields["current_kprobe"].offset
        right = tells(mutant.isa, mutant.hook).right
        return made.machine.read_u64(current) != 0 or migration.told(made, mutant.hook).right != right
    except (AssertionError, IndexError, TramplabError):
        return True


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_of_a_shim_is_caught(mutant, tmp_path):
    assert noticed(mutant, Kernel(mutant.isa, guest=broken(tmp_path, mutant)))


@every_isa
@pytest.mark.parametrize("shim", SHIMS)
def test_an_unbroken_shim_is_not(isa, shim):
    assert not noticed(Mutant(isa, "v7.2", shim, "", "", "", ""), Kernel(isa))
