"""The functions of probes in real kernels: what is kept is found again, and is complete where a kernel has them at all."""

from bisect import bisect_right
from collections import Counter

import pytest

from tramplab.base.errors import TramplabError
from tramplab.isa import ISAS
from tramplab.vmlinux.debian.fetch import there
from tramplab.vmlinux.debian.list import plain
from tramplab.vmlinux.run import probes
from tramplab.vmlinux.saved import probes_saved, store

KEPT = {k["name"]: k for k in probes_saved.read()["kernels"]}


def test_every_plain_kernel_is_kept():
    assert list(KEPT) == [p.name for p in plain()]
    assert {p.isa for p in plain()} == set(ISAS)


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_is_found_again(name):
    """And the bytes of a function that is in one piece go up to the next address of the text that has a name, or less far; none has
    two parts."""
    package = next(p for p in plain() if p.name == name)
    if not there(package):
        pytest.skip(f"the kernel image {name} is not in the cache: `make kernels` fetches it")
    assert probes_saved.made(package) == KEPT[name]
    kernel = store.opened(package)
    starts = sorted({s.address for s in kernel.image.symbols.values()})
    pieces = Counter(s.partition(".")[0] for s in kernel.image.symbols)
    for found in KEPT[name]["parts"].values():
        for function, size in found.items():
            if pieces[function] == 1 and kernel.has(function):
                address = kernel.address(function)
                assert address + size <= starts[bisect_right(starts, address)], function
    named = [function for found in KEPT[name]["parts"].values() for function in found]
    assert len(named) == len(set(named))


@pytest.mark.parametrize("name", KEPT)
def test_a_kernel_has_what_its_probes_cannot_do_without(name):
    parts = KEPT[name]["parts"]
    assert {"register_kretprobe", "pre_handler_kretprobe", "unregister_kretprobe"} <= set(parts["kretprobe"])
    assert {"register_kprobe", "arch_arm_kprobe", "get_kprobe"} <= set(parts["kprobe"])
    hooked = "arch_rethook_trampoline" in parts["return hook"]
    assert hooked != ("__kretprobe_trampoline" in parts["kretprobe"]) and hooked == bool(parts["return hook"])
    assert ("fprobe_fgraph_entry" in parts["fprobe"]) == name.startswith("debian-7.")
    assert "return_to_handler" in parts["graph tracer"]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("kretprobe_rethook_handler", "kretprobe"),
        ("rethook_hook", "return hook"),
        ("kprobe_multi_link_handler", "fprobe"),
        ("trace_kprobe_create", "kprobe"),
        ("fprobe_fgraph_entry", "fprobe"),
        ("ftrace_graph_ret_addr", "graph tracer"),
        ("uprobe_register", None),
        ("__kprobes_text_start", None),
    ],
)
def test_a_function_has_the_part_that_its_name_says(name, part):
    assert probes.part_of(name) == part


def test_a_file_of_another_image_is_refused(tmp_path):
    name = next(iter(KEPT))
    path = tmp_path / probes_saved.FILE
    path.write_text(probes_saved.text([{**KEPT[name], "sha256": "0" * 64}]), "utf-8")
    with pytest.raises(TramplabError, match=f"{name} is of another image than is listed: run `make kernels`"):
        store.read(path, probes_saved.File, plain())


def test_the_file_is_written_as_it_is_read():
    kernels = probes_saved.read()["kernels"]
    assert probes_saved.data_file(probes_saved.FILE).read_text("utf-8") == probes_saved.text(kernels)
