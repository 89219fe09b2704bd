"""The memory that the emulator and Python share, against a plain dictionary of bytes."""

import random

import pytest
from hypothesis import settings

from support.plugins.seeds import drawn, seeds
from tramplab.emulate.memory.ram import Ram

PAGE = 4096
#: Side by side, apart, and at the end of the address space.
BLOCKS = ((PAGE, PAGE), (2 * PAGE, 2 * PAGE), (8 * PAGE, PAGE), ((1 << 64) - PAGE, PAGE))


@drawn
@pytest.mark.parametrize("order", [BLOCKS, BLOCKS[::-1]], ids=["up", "down"])
def test_what_is_read_is_what_was_written(order):
    """From anywhere, so many bytes, across blocks; what is not there for all of it is refused, and nothing has changed."""
    for seed in seeds("ram", settings.default.max_examples):
        rng, ram, there = random.Random(seed), Ram(), {}
        assert len({ram.add(*block) for block in order}) == len(BLOCKS)
        for address, size in BLOCKS:
            there |= dict.fromkeys(range(address, address + size), 0)
        for _ in range(20):
            start, size = rng.choice(BLOCKS)
            address, data = start + rng.randrange(-20, size + 20), rng.randbytes(rng.choice((0, 1, 8, 50, PAGE)))
            span = range(address, address + len(data))
            if all(at in there for at in span):
                ram.write(address, data)
                there.update(zip(span, data, strict=True))
                assert ram.read(address, len(data)) == data
            else:
                with pytest.raises(LookupError):
                    ram.write(address, data)
                with pytest.raises(LookupError):
                    ram.read(address, len(data))
        assert all(ram.read(a, n) == bytes(there[a + i] for i in range(n)) for a, n in BLOCKS)
