/* One repetition of the items, in order and out of order. */
#ifndef ORDERS_H
#define ORDERS_H

#include "items.h"

static void spend(int64_t amount, int64_t *cycle, int64_t *left, int64_t per_cycle)
{
	int64_t missing = amount - *left;

	if (missing <= 0) {
		*left -= amount;
		return;
	}
	*cycle += (missing + per_cycle - 1) / per_cycle;
	*left = (per_cycle - missing % per_cycle) % per_cycle;
}

static int64_t fetch(struct model *m, int64_t slots)
{
	int64_t first;

	spend(slots, &m->fetched, &m->left, m->fetch);
	first = m->room ? m->cycle : m->cycle + 1;
	return first > m->fetched ? first : m->fetched;
}

static int64_t hand_out(struct model *m, int64_t slots, int64_t earliest)
{
	if (earliest > m->cycle) {
		m->cycle = earliest;
		m->room = m->width;
	}
	spend(slots, &m->cycle, &m->room, m->width);
	return m->cycle;
}

static void restart(struct model *m, int64_t cycle)
{
	m->fetched = cycle > m->fetched + 1 ? cycle : m->fetched + 1;
	m->left = m->fetch;
}

/* What is carried from one repetition to the next, and the values that this one has stored. */
struct state {
	int64_t finished, known, atomic_done, count, n_written;
};

NO_CALLS static int64_t *copied(int64_t *to, const int64_t *from, int64_t n)
{
	while (n--)
		*to++ = *from++;
	return to;
}

/* The cycle in which there are slots for an item, and room in the window and the store buffer. */
static int64_t slots(struct model *m, const struct item *i, const struct state *s)
{
	int64_t earliest = most(fetch(m, i->slots), m->done[s->count % m->window]);

	if (i->stores) {
		int64_t back = i->stores - m->buffer - 1;

		earliest = most(earliest, m->drained[back < 0 ? m->n_drained + back : back]);
	}
	if (i->barrier)
		earliest = most(earliest, s->finished + i->barrier);
	return hand_out(m, i->slots, earliest);
}

/* When an item's value is there, `where`: its addresses. */
static int64_t executed(struct model *m, const struct item *i, struct state *s, int64_t value, int64_t where)
{
	if (i->n_loads) {
		int64_t issue = m->loads_wait ? most(s->known, where) : where;

		if (m->locks_wait)
			issue = most(issue, s->atomic_done);
		for (int64_t k = i->load_cycles; k--;)
			issue = take(m, m->load, issue);
		loaded(m, i->loads, i->n_loads, issue, 0, &value);
	}
	value = ready_at(m->ready, i->reads, i->n_reads, value);
	if (i->atomic)
		value = s->atomic_done = most(value, s->atomic_done) + i->latency;
	else if (i->ports)
		value = take(m, i->ports, value) + i->latency;
	return value;
}

static void store(struct model *m, const struct item *i, struct state *s, int64_t value, int64_t where)
{
	int64_t there;

	for (int64_t k = i->store_cycles; k--;)
		where = take(m, m->store, where);
	s->known = most(s->known, where + 1);
	there = m->data ? take(m, m->data, value) : value;
	s->finished = most(most(s->finished, where + 1), there + 1);
	for (int64_t k = i->stores; k--;) {
		int64_t next = most(s->finished, m->drained[m->n_drained - m->per_cycle] + 1);

		m->written[s->n_written++] = value;
		m->drained[m->n_drained++] = next;
	}
}

/* What an item does to the front end, and to the slots after it. */
static void steer(struct model *m, const struct item *i, int missed, int64_t value)
{
	if (missed)
		restart(m, value + m->mispredict);
	else if (i->bubble >= 0) {
		m->fetched += 1 + i->bubble;
		m->left = m->fetch;
	}
	if (i->keeps) {
		m->cycle += i->keeps;
		m->room = m->width;
	}
}

NO_CALLS static int64_t out_of_order(struct model *m, const uint8_t *missed, int64_t *clocks, struct state *state)
{
	struct state s = *state;
	const int32_t *at = m->items;
	int64_t *end = clocks;
	struct item i;

	s.n_written = 0;
	for (int64_t n = 0; n < m->n_items && !m->full; n++) {
		int64_t value, where;

		at = parsed(at, &i);
		value = slots(m, &i, &s) + 1;
		where = ready_at(m->ready, i.address, i.n_address, value);
		value = executed(m, &i, &s, value, where);
		for (int64_t k = 0; k < i.n_writes; k++)
			m->ready[i.writes[k]] = value;
		for (int64_t k = 0; k < i.n_bumps; k++)
			m->ready[i.bumps[k]] = take(m, m->alu, where) + 1;
		s.finished = most(s.finished, value);
		if (i.stores)
			store(m, &i, &s, value, where);
		m->done[s.count++ % m->window] = s.finished;
		steer(m, &i, missed && missed[n], value);
	}
	*end++ = m->cycle;
	*end++ = m->fetched;
	*end++ = s.finished;
	*end++ = m->drained[m->n_drained - 1];
	*end++ = s.known;
	*end++ = s.atomic_done;
	end = copied(end, m->ready, m->n_registers);
	end = copied(end, m->written, s.n_written);
	*state = s;
	return end - clocks;
}

/* The cycle in which an item is issued, when all that it needs is there; nothing overtakes it. */
static int64_t issued(struct model *m, const struct item *i, int64_t finished)
{
	int64_t issue = fetch(m, i->slots);

	if (i->barrier)
		issue = most(issue, finished + i->barrier);
	issue = ready_at(m->ready, i->address, i->n_address, issue);
	issue = ready_at(i->can_be_late ? m->late : m->ready, i->reads, i->n_reads, issue);
	if (i->ports)
		issue = take(m, i->ports, issue);
	for (int64_t k = m->load ? i->load_cycles : 0; k--;)
		issue = take(m, m->load, issue);
	for (int64_t k = m->store ? i->store_cycles : 0; k--;)
		issue = take(m, m->store, issue);
	hand_out(m, i->slots, issue);
	return issue;
}

NO_CALLS static int64_t in_order(struct model *m, const uint8_t *missed, int64_t *clocks, struct state *state)
{
	int64_t finished = state->finished, n_written = 0, *end = clocks;
	const int32_t *at = m->items;
	struct item i;

	for (int64_t n = 0; n < m->n_items && !m->full; n++) {
		int64_t issue, delay = 0, value;

		at = parsed(at, &i);
		issue = issued(m, &i, finished);
		if (i.can_be_late && ready_at(m->ready, i.reads, i.n_reads, issue) > issue)
			delay = m->late_stage;
		value = issue + delay + i.latency;
		loaded(m, i.loads, i.n_loads, issue, i.latency, &value);
		for (int64_t k = i.stores; k--;)
			m->written[n_written++] = value;
		for (int64_t k = 0; k < i.n_writes; k++) {
			m->ready[i.writes[k]] = value;
			m->late[i.writes[k]] = value - (i.n_loads || delay ? m->late_stage : 0);
		}
		for (int64_t k = 0; k < i.n_bumps; k++)
			m->ready[i.bumps[k]] = m->late[i.bumps[k]] = issue + 1;
		finished = most(finished, value);
		if (missed && missed[n])
			restart(m, value + m->mispredict);
		else if (i.bubble >= 0)
			restart(m, issue + 1 + i.bubble);
	}
	state->finished = finished;
	*end++ = m->cycle;
	*end++ = finished;
	end = copied(end, m->ready, m->n_registers);
	end = copied(end, m->late, m->n_registers);
	end = copied(end, m->written, n_written);
	return end - clocks;
}

#endif
