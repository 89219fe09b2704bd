"""The unwinders of real kernels: what is kept is found again, and what it rests on is needed."""

import pytest

from tramplab.base.errors import TramplabError
from tramplab.unwind.stacks import MISSING, RIGHT, WRONG
from tramplab.vmlinux import hooks
from tramplab.vmlinux.debian.fetch import there
from tramplab.vmlinux.debian.list import plain
from tramplab.vmlinux.hooks import breakpoints
from tramplab.vmlinux.run import walks
from tramplab.vmlinux.run.machine import RealMachine
from tramplab.vmlinux.saved import store, walks_saved

KEPT = {k["name"]: k for k in walks_saved.read()["kernels"]}


def package(name):
    found = next(p for p in plain() if p.name == name)
    if not there(found):
        pytest.skip(f"the kernel image {name} is not in the cache: `make kernels` fetches it")
    return found


def caller(name):
    return walks.Caller(RealMachine(store.opened(package(name))))


def walked(made, hook):
    """Of each place: what is found of the frames, and whether that is reliable."""
    return [(walk.frames, walk.reliable) for walk in made.walks(hooks.get(hook).attach)]


def test_every_plain_kernel_is_kept():
    assert set(KEPT) == {p.name for p in plain()}


@pytest.mark.parametrize("name", ["debian-6.12-amd64", "debian-7.2-amd64", "debian-7.2-arm64", "debian-7.2-riscv64"])
def test_what_is_kept_is_found_again(name):
    assert walks_saved.made(package(name)) == KEPT[name]


@pytest.mark.parametrize("name", ["debian-7.2-amd64", "debian-7.2-arm64", "debian-7.2-riscv64"])
def test_without_a_hook_the_whole_way_to_the_entry_code_is_found(name):
    made = caller(name)
    (walk,) = made.walks(hooks.get("none").attach)
    assert walk.frames == (RIGHT,) * 3 and walk.asleep and walk.symbols[-1] == made._machine.name_of(made._back).partition("+")[0]


def test_bpf_is_refused_where_it_does_not_say_where_its_frame_pointer_holds(monkeypatch):
    """And no return address is text that the kernel does not know: then all behind it is lost."""
    made = caller("debian-7.2-amd64")
    assert walked(made, "bpf-fexit")[1] == ((RIGHT,) * 3, True)
    monkeypatch.setattr(walks, "TABLES", {})
    assert [reliable for _, reliable in walked(made, "bpf-fexit")] == [False, False]
    monkeypatch.setattr(walks.Caller, "_make_known", lambda *_: None)
    assert walked(made, "bpf-fexit")[1] == ((RIGHT, MISSING, MISSING), False)


@pytest.mark.parametrize("name, frames", [("6.12", ((RIGHT, MISSING, MISSING), False)), ("7.2", ((RIGHT, WRONG, RIGHT), True))])
def test_only_a_probe_on_the_push_misleads(monkeypatch, name, frames):
    made = caller(f"debian-{name}-amd64")
    read, body = made._machine.machine.instruction_at, made.function.site.body
    assert read(body).mnemonic == "push" and read(body).size == 1
    assert walked(made, "kprobe-brk")[0] == frames
    further = next(at for at in range(body + 10, body + 20) if read(at).text == "xor edx, edx")
    monkeypatch.setattr(breakpoints, "probed", lambda *_: further)
    assert walked(made, "kprobe-brk")[0] == ((RIGHT,) * 3, True)


def test_a_hook_whose_returns_nobody_looks_up_hides_the_caller(monkeypatch):
    """riscv64's walk would name the caller if it asked by the word that is kept."""
    made = caller("debian-7.2-riscv64")
    assert [frames for frames, _ in walked(made, "graph")][1:] == [("returned", WRONG, RIGHT), (RIGHT, WRONG, RIGHT)]
    assert [frames for frames, _ in walked(made, "bpf-fentry")] == [(RIGHT,) * 3] * 2


# -- what is kept


def test_each_kernel_says_of_every_hook_what_it_has_or_why_not():
    for kernel in KEPT.values():
        named = [*dict.fromkeys(w["hook"] for w in kernel["walks"]), *(a["hook"] for a in kernel["absent"])]
        assert sorted(named) == sorted(walks_saved.WALKED)
        for hook in dict.fromkeys(w["hook"] for w in kernel["walks"]):
            places = [w["place"] for w in kernel["walks"] if w["hook"] == hook]
            assert len(set(places)) == len(places) and places[-1] == walks_saved.ASLEEP


def test_the_file_is_written_as_it_is_read(tmp_path):
    path, data = tmp_path / "walks.json", walks_saved.read()
    path.write_text(walks_saved.text(data["kernels"]), "utf-8")
    assert store.read(path, walks_saved.File, plain()) == data
    path.write_text(path.read_text("utf-8").replace('"missing"', '"lost"', 1), "utf-8")
    with pytest.raises(TramplabError, match="lost"):
        store.read(path, walks_saved.File, plain())
