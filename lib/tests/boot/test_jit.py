"""The lab's BPF trampolines beside those that Debian's JITs made, and how these were read."""

from __future__ import annotations

import pytest

from tramplab.base.errors import TramplabError
from tramplab.boot.jit import compared, saved
from tramplab.boot.jit.instructions import forms
from tramplab.emulate import decode
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.trampolines.bpf import signature, trampolines
from tramplab.trampolines.bpf.code import Text
from tramplab.trampolines.bpf.shape import items

KERNELS = saved.read()["kernels"]
MADE = [(kernel, made) for kernel in KERNELS for made in kernel["trampolines"]]


def named(kernel, made):
    return f"{kernel['name']}-{made['function']}-{'+'.join(kind for kind, _ in made['programs'])}"


@pytest.mark.parametrize("kernel, made", MADE, ids=[named(*m) for m in MADE])
def test_lab_makes_what_the_jit_made(kernel, made):
    """The same in the same order, on x86-64 to the byte. A call may take fewer instructions than the lab's: arm64's JIT takes a BL
    where it reaches, which is so in a kernel at its link address, and riscv64's a JAL to a program that lies
    beside. And an arm64's address may lack a MOVK of zeros."""
    real, lab = compared.both(kernel, made)
    assert [f.text for f in real] == [f.text for f in lab]
    apart = {f.text.split()[0] for f, g in zip(real, lab, strict=True) if f.count != g.count}
    assert apart <= {"x86_64": set(), "arm64": {"call", "x0", "x19"}, "riscv64": {"call"}}[kernel["isa"]]
    if kernel["isa"] == "x86_64":
        pointers = dict.fromkeys(f.pointer for f in real if f.pointer)
        assert compared.lab(kernel, made, pointers).hex() == made["code"]


def test_every_isa_and_kind_is_there():
    kinds = {(kernel["isa"], kind) for kernel, made in MADE for kind, _ in made["programs"]}
    assert kinds == {(isa, kind) for isa in ISAS for kind in saved.KINDS.values()}
    assert {"v6.1", "v6.12", "v7.2"} <= {kernel["release"] for kernel, _ in MADE}


def test_rows_say_what_is_apart():
    rows = compared.compared()
    assert len(rows) == len(MADE) and all(row.same for row in rows)
    assert all(row.real == row.lab and not row.difference for row in rows if row.isa == "x86_64")
    one = next(r for r in rows if (r.isa, r.release, r.function, r.kind) == ("arm64", "v6.12", "bpf_fentry_test1", "fentry"))
    assert (one.real, one.lab, one.difference) == (34, 43, "3 calls by 1 instructions, not 4")


@pytest.mark.parametrize("isa", ISAS)
def test_another_instruction_is_seen(isa, monkeypatch):
    kernel, made = next(m for m in MADE if m[0]["isa"] == isa)

    def more(plan, own):
        pieces = list(items(plan, own))
        return [*pieces[:-1], Text("nop"), pieces[-1]]

    monkeypatch.setattr(compared, "items", more)
    row = compared.row(kernel, made)
    assert not row.same and "-nop" in row.difference


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["name"])
def test_kernels_refuse_what_the_lab_refuses(kernel):
    """For their arguments; a kernel without direct calls attaches nothing."""
    features = releases.features(ISAS[kernel["isa"]], releases.nearest(kernel["release"]), {})
    prototypes = {made["function"]: compared.prototype(made) for _, made in MADE}
    refused = {r["function"] for r in kernel["refused"] if r["error"] == "ENOTSUPP"}
    if not kernel["trampolines"]:
        assert refused == set(prototypes) and not features["direct"]
        return
    for name, prototype in prototypes.items():
        if name in refused:
            with pytest.raises(TramplabError, match="ENOTSUPP"):
                signature.require_taken(prototype, features)
        elif name in {made["function"] for made in kernel["trampolines"]}:
            signature.require_taken(prototype, features)


def test_site_leads_to_the_trampoline():
    """Where the site's instruction reaches it: x86-64's does."""
    for kernel, made in MADE:
        if kernel["isa"] == "x86_64":
            data = bytes.fromhex(made["site"])
            site = decode.at(ISAS["x86_64"], made["body"] - 5, data)
            jumped = kernel["direct_jmp"] and any(kind != "fentry" for kind, _ in made["programs"])
            assert site.text == f"{'jmp' if jumped else 'call'} {made['address']:#x}"


@pytest.mark.parametrize("isa", ISAS)
def test_trampoline_ends_at_its_return(isa):
    for kernel, made in MADE:
        if kernel["isa"] == isa:
            data = bytes.fromhex(made["code"])
            assert saved.whole(ISAS[isa], made["address"], data + bytes(16)) == data
            with pytest.raises(TramplabError, match="does not end within"):
                saved.whole(ISAS[isa], made["address"], data[:8])
            break


def test_calls_and_addresses_are_one_form():
    arm64 = ISAS["arm64"]
    far = trampolines.MODULES["arm64"].call(0x1000, 0xFFFF800080123456)
    near = bytes.fromhex("00040094")  # bl 0x1000 bytes further on, from 0x1010
    found = forms(arm64, 0x1000, far + near, {0xFFFF800080123456: "a", 0x2010: "b"})
    assert [(f.text, f.count) for f in found] == [("call a", 4), ("call b", 1)]


def test_what_a_boot_says_is_read():
    """Of a function's programs, those that are attached in another wave are others; a refusal comes before what is read."""
    printed = ["attach f ex", "code 1000 00", "refused 20c trace", "attach g m", "refused 16 program 1a 1a 2 00", "read f ex"]
    said = {(function, kinds): saved._refusal(lines) for function, kinds, lines in saved._said(printed)}
    assert said == {("f", "ex"): ("attach", "ENOTSUPP"), ("g", "m"): ("load", "EINVAL")}
    assert saved._refusal(["code 1000 00"]) == ("", "")
