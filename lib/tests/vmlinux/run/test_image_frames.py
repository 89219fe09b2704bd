"""Register structures on real kernels: what is kept is found again, and says what the page says."""

import json

import pytest

from tramplab.base.errors import TramplabError
from tramplab.build.dwarf import Field, Struct
from tramplab.isa import ISAS
from tramplab.sparsity.structures.classify import GARBAGE, TRUE
from tramplab.sparsity.structures.fields import PT_REGS, places
from tramplab.sparsity.structures.providers import PROVIDERS
from tramplab.vmlinux.debian.fetch import there
from tramplab.vmlinux.debian.list import plain
from tramplab.vmlinux.run import frames
from tramplab.vmlinux.run.machine import RealMachine
from tramplab.vmlinux.saved import frames_saved, store

#: Providers that images which could not be fetched since have not been run with; those that are there have all.
SINCE = {"__kretprobe_trampoline"}
FETCHED = [p for p in plain() if there(p)]
KEPT = {k["name"]: k for k in frames_saved.read()["kernels"]}


def fetched(name):
    package = next((p for p in FETCHED if p.name == name), None)
    if package is None:
        pytest.skip(f"the kernel image {name} is not in the cache: `make kernels` fetches it")
    return package


def kept(name, provider):
    """slot -> (kind, rule), as the file has it."""
    frame = next(f for f in KEPT[f"debian-{name}"]["frames"] if f["provider"] == provider)
    return {s["slot"]: (s["kind"], s["rule"]) for s in frame["slots"]}


@pytest.mark.parametrize("name", list(KEPT))
def test_what_is_kept_is_found_again(name):
    assert frames_saved.made(fetched(name)) == KEPT[name]


@pytest.mark.parametrize("name", list(KEPT))
def test_other_values_change_nothing(name):
    """Other registers, flags and stack content than those that the file was made with."""
    machine = RealMachine(store.opened(fetched(name)))
    for kept_ in KEPT[name]["frames"]:
        found = frames.frame(machine, kept_["provider"], (14, 9, 3), (6, 15)).found.slots
        assert [(s.name, s.kind, s.rule) for s in found.values()] == [(s["slot"], s["kind"], s["rule"]) for s in kept_["slots"]]


def test_all_that_a_hook_was_attached_with_is_gone_behind_it():
    machine = RealMachine(store.opened(fetched("debian-7.2-riscv64")))
    function, arguments = machine.function(frames.FUNCTIONS[0]), {"a0": 41}
    before = machine.call(function, arguments)
    for provider in ("return_to_handler", "arch_rethook_trampoline", "breakpoint"):
        frames.frame(machine, provider)
        after = machine.call(function, arguments)
        assert (after.value, after.instructions) == (before.value, before.instructions)


def test_a_call_that_hands_nothing_on_is_no_frame(monkeypatch):
    """The site is left idle: nobody is handed anything, and that is said."""
    machine = RealMachine(store.opened(fetched("debian-6.12-arm64")))
    idle = frames.Way(lambda m, f: None, "ftrace_ops_list_func", 3)
    monkeypatch.setitem(frames._WAYS, "ftrace_caller", lambda m: idle)
    monkeypatch.setattr(frames.frames, "goes_on", lambda *_: 0)
    with pytest.raises(TramplabError, match="did not hand anything to ftrace_ops_list_func"):
        frames.frame(machine, "ftrace_caller")


# -- what is kept


def test_each_kernel_says_of_every_provider_what_it_has_or_why_not():
    for kernel in KEPT.values():
        named = [f["provider"] for f in kernel["frames"]] + [a["provider"] for a in kernel["absent"]]
        missing = set(PROVIDERS) - set(named)
        package = next(p for p in plain() if p.name == kernel["name"])
        assert missing <= SINCE and not (missing and there(package)), f"`make kernels KERNELS={package.name}` runs {missing}"
        assert sorted(named) == sorted(set(PROVIDERS) - missing)
        for frame in kernel["frames"]:
            ends = [s["offset"] + s["size"] for s in frame["slots"]]
            starts = [s["offset"] for s in frame["slots"]]
            assert ends == sorted(ends) and all(end <= start for end, start in zip(ends, starts[1:], strict=False))
            assert ends[-1] <= frame["size"]


def test_the_mode_is_filled_by_exceptions_and_not_at_the_return():
    """What the page says of cs, pstate and status."""
    assert kept("6.12-amd64", "return_to_handler")["cs"] == (GARBAGE, "")
    assert kept("6.12-amd64", "ftrace_caller")["cs"] == ("constant", "0")
    for provider in ("ftrace_caller", "ftrace_regs_caller"):
        assert kept("6.1-arm64", provider)["pstate"] == (GARBAGE, "")
    for release in ("6.12", "7.2"):
        assert kept(f"{release}-arm64", "breakpoint")["pstate"] == (TRUE, "")
        assert kept(f"{release}-riscv64", "breakpoint")["status"] == (TRUE, "")
        rethook = kept(f"{release}-riscv64", "arch_rethook_trampoline")
        assert (rethook["status"], rethook["sp"]) == ((GARBAGE, ""), (TRUE, ""))
    record = [kept("7.2-arm64", "breakpoint")[f"stackframe[{n}]"] for n in range(3)]
    assert [kind for kind, _ in record] == ["constant"] * 3 and [rule == "0" for _, rule in record] == [True, True, False]


def test_the_file_is_written_as_it_is_read(tmp_path):
    path = tmp_path / "frames.json"
    data = frames_saved.read()
    path.write_text(frames_saved.text(data["kernels"]), "utf-8")
    assert store.read(path, frames_saved.File, plain()) == json.loads(path.read_text("utf-8")) == data
    for spoilt, complaint in (
        (path.read_text("utf-8").replace('"garbage"', '"rubbish"', 1), "rubbish"),
        (path.read_text("utf-8").replace(data["kernels"][0]["sha256"], "0" * 64), "another image"),
    ):
        path.write_text(spoilt, "utf-8")
        with pytest.raises(TramplabError, match=complaint):
            store.read(path, frames_saved.File, plain())


def test_what_is_known_of_an_image_that_is_not_fetched_stays(tmp_path, monkeypatch, capsys):
    (tmp_path / "kernels").mkdir()
    monkeypatch.setattr(store, "data_file", lambda name: tmp_path / name)
    monkeypatch.setattr(store, "there", lambda package: package is first)
    first, second = plain()[:2]
    old = {**KEPT[next(iter(KEPT))], **store.of(second)}
    (tmp_path / frames_saved.FILE).write_text(frames_saved.text([old]), "utf-8")
    fresh = {**old, **store.of(first), "absent": []}
    remade = store.remake(
        frames_saved.FILE, frames_saved.File, (first, second), lambda p: fresh, frames_saved.text, lambda k: "done"
    )
    told = capsys.readouterr().out
    assert remade == 0 and f"{first.name}: done" in told and f"{second.name}: not fetched" in told
    assert json.loads((tmp_path / frames_saved.FILE).read_text("utf-8"))["kernels"] == [fresh, old]


# -- members that share their bytes


class Union:
    """A pt_regs with an overlay, a register that two names have, and something longer of nobody's."""

    isa = ISAS["arm64"]

    def struct(self, name):
        members = {
            "user_regs": Field(0, 24),
            "regs": Field(0, 16, 2),
            "sp": Field(16, 2),
            "spx": Field(16, 8),
            "stackframe": Field(24, 16),
        }
        return Struct(name, 40, members)


def test_members_that_share_bytes_are_one_slot():
    found = [(p.name, p.offset, p.size) for p in places(Union(), PT_REGS)]
    assert found == [("x0", 0, 8), ("x1", 8, 8), ("sp", 16, 2), ("stackframe[0]", 24, 8), ("stackframe[1]", 32, 8)]
