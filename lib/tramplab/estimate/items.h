/* Items, as the stream has them, and when what they wait for is there. */
#ifndef ITEMS_H
#define ITEMS_H

#include "model.h"

struct item {
	int64_t slots, bubble, keeps, ports, latency, load_cycles, stores, store_cycles, barrier, atomic, can_be_late, n_loads;
	int64_t n_address, n_reads, n_writes, n_bumps;
	const int32_t *address, *reads, *writes, *bumps, *loads;
};

static void numbers(const int32_t **at, int64_t *n, const int32_t **list)
{
	*n = *(*at)++;
	*list = *at;
	*at += *n;
}

static const int32_t *parsed(const int32_t *at, struct item *i)
{
	i->slots = *at++;
	i->bubble = *at++;
	i->keeps = *at++;
	i->ports = *at++;
	i->latency = *at++;
	i->load_cycles = *at++;
	i->stores = *at++;
	i->store_cycles = *at++;
	i->barrier = *at++;
	i->atomic = *at++;
	i->can_be_late = *at++;
	numbers(&at, &i->n_address, &i->address);
	numbers(&at, &i->n_reads, &i->reads);
	numbers(&at, &i->n_writes, &i->writes);
	numbers(&at, &i->n_bumps, &i->bumps);
	i->n_loads = *at++;
	i->loads = at;
	for (int64_t n = i->n_loads; n--; at += *at + 3)
		;
	return at;
}

static inline int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t ready_at(const int64_t *ready, const int32_t *registers, int64_t n, int64_t at)
{
	while (n--)
		at = most(at, ready[*registers++]);
	return at;
}

/* When a load's value is there, of a value that is there anyway; `more`: cycles that the instruction takes with it. */
static const int32_t *loaded(struct model *m, const int32_t *at, int64_t n_loads, int64_t issue, int64_t more, int64_t *value)
{
	while (n_loads--) {
		int64_t n = *at++;
		const int32_t *stores = at;
		int64_t forward = at[n], latency = at[n + 1];

		*value = most(*value, issue + latency + more);
		for (; n--; stores++)
			*value = most(*value, (*stores >= 0 ? m->written[*stores] : m->before[~*stores]) + forward);
		at = stores + 2;
	}
	return at;
}

#endif
