"""Being called when a guest comes to an instruction: for the length of a `with`, several at once, and again."""

from support.models.guests import every_isa
from tramplab import Kernel


@every_isa
def test_who_watches_is_called_before_the_instruction_and_only_then(isa):
    k = Kernel(isa, meter="count")
    m, f = k.machine, k.function("one_arg")
    seen = []

    def look():
        seen.append((m.register(k.isa.pc), m.register(k.isa.args[0])))

    plain = k.call(f, 5)
    with m.watching(f.address, look):
        watched = k.call(f, 5)
    assert seen == [(f.address, 5)] and watched.value == plain.value and watched.counts.total == plain.counts.total
    k.call(f, 6)
    assert len(seen) == 1
    with m.watching(f.address, look):
        k.call(f, 7)
    assert seen[1:] == [(f.address, 7)]


@every_isa
def test_several_watch_one_instruction(isa):
    """Each for as long as it likes, in the order in which they came; one of them for good."""
    k = Kernel(isa, meter="count")
    m, f, called = k.machine, k.function("one_arg"), []
    m.watch(f.address, lambda: called.append("always"))
    with m.watching(f.address, lambda: called.append("first")):
        with m.watching(f.address, lambda: called.append("second")):
            k.call(f, 1)
        k.call(f, 1)
    k.call(f, 1)
    assert called == ["always", "first", "second", "always", "first", "always"]


@every_isa
def test_what_was_translated_before_is_watched_too(isa):
    k = Kernel(isa, meter="count")
    called = []
    for name in ("one_arg", "three_args"):
        k.call(name, 1, 2, 3)
        with k.machine.watching(k.function(name).site.body, lambda name=name: called.append(name)):
            k.call(name, 1, 2, 3)
    assert called == ["one_arg", "three_args"]
