"""Times of this machine: taken once for each state of the sources, kept, renewed, switched off or given."""

import pytest

from support.native.machines import result, shaped
from tramplab.base import cache
from tramplab.base.errors import TramplabError
from tramplab.native import cached, load
from tramplab_book.publish.figures.show import show
from tramplab_book.studies.time import native_hooks


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """An empty cache, no choice of times, and a clock that says how often it was asked."""
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(cached.CHOICE, raising=False)
    monkeypatch.setattr(cached.host, "isa", lambda: None)
    monkeypatch.setattr(cached.host, "machine", lambda: {"cpu": "made up"})
    asked = []

    def measure():
        asked.append(1)
        return result("x86_64", {"direct": float(len(asked))}), shaped("x86_64", {"shape-2-0-balanced": 1.0})

    monkeypatch.setattr(cached, "_timed", measure)
    cached._own.cache_clear()
    yield asked
    cached._own.cache_clear()


def test_a_machine_is_timed_once_per_state_of_the_sources(fresh, monkeypatch):
    first = cached.own(cached.HOOKS)
    cached._own.cache_clear()
    again = cached.own(cached.HOOKS)
    assert again.rows == first.rows and len(fresh) == 1
    monkeypatch.setattr(cached, "_state", lambda: "other")
    cached._own.cache_clear()
    assert cached.own(cached.HOOKS).row("direct")["ns_over"] == 2 and len(fresh) == 2


def test_kept_times_are_renewed_on_demand(fresh):
    """As where a build met the machine at work."""
    assert cached.own(cached.HOOKS).row("direct")["ns_over"] == 1
    assert cached.renew().row("direct")["ns_over"] == 2 == cached.own(cached.HOOKS).row("direct")["ns_over"] == len(fresh)


def test_a_cache_that_cannot_be_written_keeps_nothing_and_stops_nothing(fresh, monkeypatch, tmp_path):
    def refuse(*_):
        raise TramplabError("cannot keep files.")

    monkeypatch.setattr(cache, "keep", refuse)
    assert cached.own(cached.HOOKS).row("direct")["ns_over"] == 1
    assert cached.prepare(tmp_path).startswith("this machine's times: Agreed")
    assert load(tmp_path / "hooks.json").row("direct")["ns_over"] == 1


@pytest.mark.parametrize(
    "trouble, said",
    [
        (TramplabError("native runs need Linux."), "native runs need Linux."),
        (TypeError("'NoneType' object is not subscriptable"), "this machine could not be timed (TypeError: 'NoneType'"),
        (OSError(28, "No space left on device"), "this machine could not be timed (OSError: [Errno 28]"),
    ],
)
def test_whatever_stands_in_the_way_of_timing_is_a_sentence_for_the_pages(fresh, monkeypatch, tmp_path, trouble, said):
    """Laid down before the build, so that no page tries again."""

    def refuse():
        fresh.append(1)
        raise trouble

    monkeypatch.setattr(cached, "_timed", refuse)
    (tmp_path / "hooks.json").write_text("left by somebody", "utf-8")
    assert cached.prepare(tmp_path).startswith(f"no times of this machine: {said}") and len(fresh) == 1
    monkeypatch.setenv(cached.CHOICE, str(tmp_path))
    for kind in cached.KINDS:
        with pytest.raises(TramplabError) as e:
            cached.own(kind)
        assert str(e.value).startswith(said) and len(fresh) == 1
    assert said in " ".join(show(native_hooks, "fig-here-hooks").text.split())


def test_times_can_be_switched_off_or_given(fresh, monkeypatch, tmp_path):
    monkeypatch.setenv(cached.CHOICE, cached.OFF)
    assert cached.prepare(tmp_path) == "no times of this machine: times of this machine are switched off (TRAMPLAB_TIMES=off)."
    (tmp_path / "hooks.txt").unlink()
    result("arm64", {"direct": 7.0}).save(tmp_path / "hooks.json")
    monkeypatch.setenv(cached.CHOICE, str(tmp_path))
    assert cached.own(cached.HOOKS).row("direct")["ns_over"] == 7 and fresh == []


def test_saved_results_are_told_apart(monkeypatch, tmp_path):
    monkeypatch.setattr(cached, "data_file", lambda name: tmp_path / name)
    assert cached.saved(cached.HOOKS) == {}
    (tmp_path / "native").mkdir()
    result("arm64", {"direct": 5.0}).save(tmp_path / "native" / "b.json")
    shaped("arm64", {"shape-2-0-balanced": 1.0}).save(tmp_path / "native" / "a.json")
    assert list(cached.saved(cached.HOOKS)) == ["b"] and list(cached.saved(cached.SHAPES)) == ["a"]
