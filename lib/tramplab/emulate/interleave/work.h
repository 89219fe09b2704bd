/* What the CPUs do: how their operations begin, and what each comes to. Who holds which node is kept here, too. */
#ifndef WORK_H
#define WORK_H

#include "state.h"

static void end(struct lab *l, void *engine, int trouble, uint64_t where)
{
	if (!l->trouble) {
		l->trouble = trouble;
		l->where = where;
	}
	l->stop(engine);
}

static int find_node(struct lab *l, uint64_t address)
{
	uint64_t low = 0, high = l->nr_nodes;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (l->nodes[middle] < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < l->nr_nodes && l->nodes[low] == address ? (int)low : -1;
}

static void sure_changes(struct lab *l, int by)
{
	l->sure += by;
	l->dried += l->sure < 0 && by < 0;
}

/* How the next operation of a CPU begins that is held. */
static void begin(struct lab *l, int n)
{
	struct cpu *c = &l->cpus[n];
	uint64_t *r = &l->registers[n * l->nr_ids];

	c->popping = c->wanted > 0;
	c->began = c->issued;
	if (c->popping) {
		sure_changes(l, -1);
		c->dried = l->sure < 0 ? -1 : (int64_t)l->dried;
		r[l->argument] = l->pool;
		r[l->pc] = l->pop;
	} else {
		r[l->argument] = l->stacks[n * l->depth + --c->held];
		l->owners[find_node(l, r[l->argument])] = FREE;
		r[l->pc] = l->push;
	}
	if (l->link >= 0)
		r[l->link] = l->return_to;
	else
		r[l->sp] -= 8;	/* the address is there still */
}

/* What an operation came to. */
static void returned(struct lab *l, void *engine, int n, uint64_t result)
{
	struct cpu *c = &l->cpus[n];
	uint64_t took = c->issued - c->began;
	int counts = l->done < l->target, node = -1;

	if (c->popping) {
		c->wanted--;
		if (result) {
			node = find_node(l, result);
			if (node < 0 || l->owners[node] != FREE) {
				end(l, engine, node < 0 ? NO_NODE : TWICE, result);
				return;
			}
			l->owners[node] = n;
			l->stacks[n * l->depth + c->held++] = result;
		} else {
			c->avoidable += counts && c->dried == (int64_t)l->dried;
			c->misses += counts;
			sure_changes(l, 1);
		}
	} else {
		sure_changes(l, 1);
	}
	if (counts) {
		if (took > c->longest)
			c->longest = took;
		*(c->popping ? &c->pops : &c->pushes) += 1;
		*(!c->popping ? &c->push_issued : result ? &c->pop_issued : &c->miss_issued) += took;
		l->done++;
	}
}

#endif
