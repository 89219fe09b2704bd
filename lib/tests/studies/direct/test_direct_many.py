"""Attaching to many functions: counts by hand, that they are what the guest then does, and what is refused."""

import shutil

import pytest

from support.base.data import copied
from tramplab import Fprobe, Kernel, TramplabError
from tramplab.base.paths import data_file
from tramplab.build.toolchain import GUEST
from tramplab.ftrace.steps import Sync, Wait
from tramplab.isa import ISAS
from tramplab.vmlinux.saved import structs
from tramplab_book.studies.direct.single import many_attach, wide
from tramplab_book.studies.direct.single.many_attach import COMPUTED, COUNTED, MULTI, ONE_OPS, OPS_EACH, PROBES, WAYS
from tramplab_book.studies.shared import guests

#: Way -> waits for other CPUs of so many functions, by hand. x86-64 has the list of ops in two common trampolines while sites
#: change, and then what fits: three waits for each change of text, and one interrupt. A kernel has 256 breakpoints at a time.
BY_HAND = {
    ("x86_64", "kprobe"): lambda n: n,
    ("x86_64", ONE_OPS): lambda n: 13 + 3 * n,
    ("x86_64", MULTI): lambda n: 13 + 3 * -(-n // 256),
    ("x86_64", PROBES): lambda n: 13 + 3 * -(-n // 256),
    ("arm64", "kprobe"): lambda n: n,
    ("arm64", OPS_EACH): lambda n: n,
    ("arm64", PROBES): lambda n: 1,
    ("riscv64", "kprobe"): lambda n: n,
    ("riscv64", OPS_EACH): lambda n: 3 * n,
    ("riscv64", PROBES): lambda n: n + 2,
}


@pytest.fixture(scope="module")
def rows():
    return many_attach.rows()


def test_waits_by_hand(rows):
    assert {(isa, way) for isa, way in zip(rows["isa"], rows["way"], strict=True)} == set(BY_HAND)
    assert set(rows["functions"]) == {*COUNTED, COMPUTED}
    for r in rows.itertuples():
        assert r.cpus == BY_HAND[r.isa, r.way](r.functions), (r.isa, r.way, r.functions)
    assert (rows["tasks"] == 0).all()


def test_what_is_computed_must_agree_with_the_last_count():
    of = {n: dict.fromkeys(many_attach.PLANNED, 3 * n) for n in COUNTED}
    assert many_attach.beyond(of, COMPUTED) == dict.fromkeys(many_attach.PLANNED, 3 * COMPUTED)
    of[COUNTED[-1]]["text"] += 1
    with pytest.raises(TramplabError, match="text does not grow evenly with the number of functions"):
        many_attach.beyond(of, COMPUTED)


@pytest.mark.parametrize("isa", ISAS)
def test_functions_that_are_attached_are_called_and_the_graph_tracer_takes_the_same_plan(isa):
    counts = []
    with wide.wide(300) as guest:
        for leaves in (False, True):
            kernel = Kernel(isa, meter="count", guest=guest)
            names = tuple(f for f in kernel.functions if f.startswith(wide.ADDED))
            assert len(names) == 300
            _, steps = kernel.slowpath.register(Fprobe(multi=True, entry=not leaves, exit=leaves, filter=names))
            kernel.apply(steps)
            counts.append(many_attach._count(kernel, steps))
            calls = [kernel.call(name, 5) for name in (names[0], names[299], "one_arg")]
            found = [(run.value, "lab_bpf_count" in run.counts.by_symbol) for run in calls]
            assert found == [(5, True), (304, True), (15, False)]
    assert counts[0] == counts[1]


def test_nobody_waits_for_the_shared_ops_of_fprobes():
    kernel = Kernel("arm64", meter="count")
    first, second = kernel.attach("one_arg", Fprobe()) + kernel.attach("two_args", Fprobe())
    for ops in (second, first):
        syncs = {step.sync for step in kernel.slowpath.unregister(ops) if isinstance(step, Wait)}
        assert Sync.CALL_RCU in syncs and Sync.RCU_TASKS not in syncs


def test_memory_is_that_of_the_structs(rows):
    of = structs.sizes("x86_64")
    multi = of["bpf_tracing_multi_node"] + of["bpf_trampoline"] + of["bpf_tramp_image"] + 2 * of["ftrace_func_entry"]
    assert many_attach.numbers(rows)["x86_64-tracing-multi-per"] == multi
    fixed = of["bpf_prog"] + of["bpf_prog_aux"] + of["bpf_tracing_multi_link"]
    assert many_attach.held("x86_64", WAYS[MULTI], 7) == fixed + 7 * multi
    link = of["fprobe_hlist_node"] + of["ftrace_func_entry"] + 8
    assert many_attach.numbers(rows)["x86_64-kprobe-multi-per"] == link


def test_a_guest_without_the_pools_is_refused(tmp_path, monkeypatch):
    guest = shutil.copytree(GUEST, tmp_path / "guest")
    header = guest / "include" / "lab.h"
    header.write_text(header.read_text("utf-8").replace("#define LAB_NR_POKES", "#define LAB_NR_POKED"), "utf-8")
    monkeypatch.setattr(guests, "GUEST", guest)
    with pytest.raises(TramplabError, match=r"lab\.h of the guest defines LAB_NR_POKES 0 times, not once"), wide.wide(1):
        pass


def test_an_isa_whose_structs_are_not_there_is_refused(tmp_path, monkeypatch):
    copied(tmp_path, monkeypatch)
    path = data_file(structs.FILE)
    text = path.read_text("utf-8")
    assert structs.text(structs.read()["kernels"]) == text
    path.write_text("\n".join(line for line in text.splitlines() if "riscv64" not in line).replace("}},\n ]", "}}\n ]"), "utf-8")
    structs.sizes.cache_clear()
    with pytest.raises(TramplabError, match=r"kernel-structs\.json has no kernel of riscv64"):
        structs.sizes("riscv64")
    structs.sizes.cache_clear()
