/* Each CPU's clock: when its next instruction happens, and whose is next. */
#ifndef CLOCK_H
#define CLOCK_H

#include "state.h"

static uint64_t draw(struct cpu *c)
{
	uint64_t x = c->random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	c->random = x;
	return x * 0x2545f4914f6cdd1dULL;
}

/* The CPU's clock after so many more instructions: one by one each takes its own time. */
static void forward(struct lab *l, int n, uint64_t instructions)
{
	struct cpu *c = &l->cpus[n];
	uint64_t drawn = draw(c), ticks = l->clocks[n] >> 24;

	c->age += instructions;
	if (l->slice) {
		ticks = (c->age / l->slice * l->nr_cpus + n) * l->slice + c->age % l->slice;
	} else if (instructions > 1) {
		ticks += (instructions / 2 + draw(c) % (instructions + 1)) << l->coin;
	} else {
		ticks += l->coin ? 1 + __builtin_ctzll(drawn | 1ULL << 40) : 1;
		if (l->stall_bits && !(draw(c) >> (64 - l->stall_bits)))
			ticks += 1 + draw(c) % (2 * l->stall_ticks);
	}
	l->clocks[n] = ticks << 24 | drawn >> 46 << NUMBER_BITS | n;
}

/* Without a branch that nobody could predict. */
static int earliest(struct lab *l)
{
	uint64_t first = l->clocks[0];

	for (uint64_t n = 1; n < l->nr_cpus; n++)
		first = l->clocks[n] < first ? l->clocks[n] : first;
	return first == PARKED ? 0 : first & ((1 << NUMBER_BITS) - 1);
}

#endif
