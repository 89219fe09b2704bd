"""Memory and registers as they were: whatever calls and Python have written since, and however the calls ended."""

from support.complaints import complaint
from support.models.guests import every_isa
from tramplab import GuestFault, Kernel, StepLimit
from tramplab.build.assemble import assemble
from tramplab.emulate.memory import pages
from tramplab.lab import hooks

HOOKS = ("ops:2", "direct+ops", "bpf-fexit", "fprobe-exit", "kprobe-brk")


def spans(kernel):
    """All memory: (address, size)."""
    places = kernel.machine.places
    areas = (places.modules, places.heap, *places.stacks, *places.more)
    return [(s.address, s.size) for s in kernel.image.segments] + [(a.address, a.size) for a in areas]


def memory(kernel):
    return [kernel.machine.read(*span) for span in spans(kernel)]


@every_isa
def test_put_back_is_as_it_was(isa):
    """Of data, text and registers; then everything can be done again, and gives the same."""
    for name in HOOKS:
        k = Kernel(isa, meter="record")
        m, f = k.machine, k.function("two_args")
        plain = k.call(f, 1, 2)
        chosen, _, count = name.partition(":")
        with k.attached(f, *hooks.requests(hooks.get(chosen), int(count or 1))):
            m.keep()
            before, registers = memory(k), m.registers()
            runs = []
            for _ in range(2):
                runs.append(k.call(f, 1, 2))
                assert memory(k) != before
                m.put_back()
                assert memory(k) == before and m.registers() == registers, name
            assert [r.value for r in runs] == [plain.value] * 2
            assert runs[0].counts.by_symbol == runs[1].counts.by_symbol


@every_isa
def test_what_python_writes_is_put_back_and_text_is_executed_as_it_was(isa):
    k = Kernel(isa, meter="record")
    m, f = k.machine, k.function("one_arg")
    m.keep()
    before, plain = memory(k), k.call(f, 5)
    m.poke(f.site.body, assemble(k.isa, "ret"))
    start, size = m.places.heap.address, 2 * pages.SIZE + 16
    m.write(start + pages.SIZE - 8, b"\xa5" * size)
    assert len(k.call(f, 5).steps) < len(plain.steps)
    m.put_back()
    assert memory(k) == before
    again = k.call(f, 5)
    assert again.value == plain.value and again.disassembly() == plain.disassembly()


@every_isa
def test_a_call_that_fails_is_put_back(isa):
    """One that stores where nothing is mapped, after the trampoline has stored, and one for which the budget is too small."""
    k = Kernel(isa, meter="record")
    m, f = k.machine, k.function("pointer_args")
    with k.attached(f, *hooks.requests(hooks.get("ops"), 1)):
        m.keep()
        before, registers = memory(k), m.registers()
        for kind, call in (
            (GuestFault, lambda: k.call(f, m.places.heap.address, 8)),
            (StepLimit, lambda: m.call(f.address, {}, budget=20)),
        ):
            assert complaint(call, kind)
            assert memory(k) != before
            m.put_back()
            assert memory(k) == before and m.registers() == registers


def test_a_store_across_pages_keeps_both():
    k = Kernel("x86_64", meter="record")
    m, at = k.machine, k.machine.places.heap.address + pages.SIZE - 4
    m.write(m.places.heap.address, bytes(range(256)) * (2 * pages.SIZE // 256))
    source = m.places.heap.address + 4 * pages.SIZE
    m.write_u64(source, (1 << 64) - 1)
    m.keep()
    before = memory(k)
    k.call("pointer_args", source, at)
    first, second = (m.read(page, pages.SIZE) for page in (m.places.heap.address, m.places.heap.address + pages.SIZE))
    assert first[-4:] != bytes(range(252, 256)) and second[:4] != bytes(range(4))
    m.put_back()
    assert memory(k) == before
