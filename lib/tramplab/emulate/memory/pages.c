/*
 * The hook at each store: a page is copied before it is first written to. As meter.c it needs no header of the emulator; pages.py
 * has the same in Python.
 */
#include <stdint.h>

enum { SHIFT = 12, WORDS = (1 << SHIFT) / 8 };

struct block {
	uint64_t address, size;
	uint64_t *now, *before;	/* the same pages: the guest's memory, and room for what it held */
	uint8_t *kept;		/* per page: is its copy in `before`? */
};

struct pages {
	struct block *blocks;
	uint64_t nr_blocks;
};

static void keep(struct pages *p, uint64_t address)
{
	for (struct block *b = p->blocks; b < p->blocks + p->nr_blocks; b++) {
		uint64_t page = (address - b->address) >> SHIFT;

		if (address - b->address >= b->size)
			continue;
		if (!b->kept[page]) {
			for (uint64_t i = page * WORDS; i < (page + 1) * WORDS; i++)
				b->before[i] = b->now[i];
			b->kept[page] = 1;
		}
		return;
	}
}

void tramplab_keep(void *engine, int type, uint64_t address, int size, int64_t value, struct pages *p)
{
	(void)engine;
	(void)type;
	(void)value;
	keep(p, address);
	keep(p, address + size - 1);
}
