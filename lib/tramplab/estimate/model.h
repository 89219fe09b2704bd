/* The model's memory, and a core's ports: which of them are taken in each cycle. */
#ifndef MODEL_H
#define MODEL_H

#include <stdint.h>

#define NO_CALLS __attribute__((no_builtin("memset", "memcpy", "memmove")))
#define MOST_PORTS 32
#define MOST_KINDS 16

struct model {
	const int32_t *items;			/* n_items of them */
	const uint8_t *missed;			/* sets of n_items flags: whose return is mispredicted */
	const int32_t *set;			/* of each repetition */
	int64_t *ready, *late, *done, *drained, *before, *written, *history;
	int32_t *used;				/* of each cycle: how many ports are taken */
	uint32_t *taken;			/* and by what, MOST_PORTS for each */
	int32_t *later;				/* for each kind of ports and cycle without one of them: a later one that may have one */
	int64_t n_items, n_registers, n_stores, repetitions, n_cycles;
	int64_t in_order, fetch, width, window, buffer, per_cycle, loads_wait, locks_wait, mispredict, late_stage;
	int64_t load, store, alu, data;
	int64_t took, over;			/* the result: cycles, of so many repetitions */
	/* from here on its own */
	uint32_t kinds[MOST_KINDS];
	int64_t n_kinds, n_drained, full;
	int64_t fetched, left, cycle, room;	/* of the front end */
	int64_t last;				/* cycle of which anything was written down */
};

static int place(const uint32_t *wanted, int which, int8_t *holder, uint32_t *tried)
{
	for (int port = 0; port < MOST_PORTS; port++) {
		if (!(wanted[which] >> port & 1) || *tried >> port & 1)
			continue;
		*tried |= 1u << port;
		if (holder[port] < 0 || place(wanted, holder[port], holder, tried)) {
			holder[port] = (int8_t)which;
			return 1;
		}
	}
	return 0;
}

/* Is there a port for each of those that a cycle has, and for one more? Then it has that one, too. */
NO_CALLS static int fits(struct model *m, int64_t cycle, uint32_t ports)
{
	uint32_t *taken = m->taken + cycle * MOST_PORTS, tried;
	int n = m->used[cycle];
	int8_t holder[MOST_PORTS];

	if (n >= MOST_PORTS)
		return 0;
	taken[n] = ports;
	for (int port = 0; port < MOST_PORTS; port++)
		holder[port] = -1;
	for (int which = 0; which <= n; which++) {
		tried = 0;
		if (!place(taken, which, holder, &tried))
			return 0;
	}
	m->used[cycle] = n + 1;
	if (cycle > m->last)
		m->last = cycle;
	return 1;
}

static int64_t kind_of(struct model *m, uint32_t ports)
{
	int64_t kind = 0;

	while (kind < m->n_kinds && m->kinds[kind] != ports)
		kind++;
	if (kind == m->n_kinds && kind < MOST_KINDS)
		m->kinds[m->n_kinds++] = ports;
	return kind;
}

static int64_t take(struct model *m, int64_t ports, int64_t cycle)
{
	int64_t kind = kind_of(m, (uint32_t)ports), first = cycle;
	int32_t *later;

	if (kind == MOST_KINDS) {
		m->full = 2;
		return cycle;
	}
	later = m->later + kind * m->n_cycles;
	for (;;) {
		if (cycle >= m->n_cycles) {
			m->full = 1;
			return first;
		}
		if (later[cycle])
			cycle = later[cycle];
		else if (fits(m, cycle, (uint32_t)ports))
			break;
		else
			cycle++;
	}
	while (first < cycle) {
		int64_t next = later[first] ? later[first] : first + 1;

		later[first] = (int32_t)cycle;
		first = next;
	}
	return cycle;
}

#endif
