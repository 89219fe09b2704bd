/*
 * The model of a core that pipeline.py describes. Items come as a stream of numbers (compiled_pipeline.py writes it), and all memory
 * from there, too; where the cycles do not suffice that there is room for, it says so.
 */
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

static inline int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
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

static int64_t ready_at(const int64_t *ready, const int32_t *registers, int64_t n, int64_t at)
{
	while (n--)
		at = most(at, ready[*registers++]);
	return at;
}

NO_CALLS static int64_t out_of_order(struct model *m, const uint8_t *missed, int64_t *clocks, int64_t *state)
{
	int64_t finished = state[0], known = state[1], atomic_done = state[2], count = state[3], n_written = 0;
	const int32_t *at = m->items;
	struct item i;

	for (int64_t n = 0; n < m->n_items && !m->full; n++) {
		int64_t earliest, cycle, where, value;

		at = parsed(at, &i);
		earliest = most(fetch(m, i.slots), m->done[count % m->window]);
		if (i.stores) {
			int64_t back = i.stores - m->buffer - 1;

			earliest = most(earliest, m->drained[back < 0 ? m->n_drained + back : back]);
		}
		if (i.barrier)
			earliest = most(earliest, finished + i.barrier);
		cycle = hand_out(m, i.slots, earliest);
		value = cycle + 1;
		where = ready_at(m->ready, i.address, i.n_address, value);
		if (i.n_loads) {
			int64_t issue = m->loads_wait ? most(known, where) : where;

			if (m->locks_wait)
				issue = most(issue, atomic_done);
			for (int64_t k = i.load_cycles; k--;)
				issue = take(m, m->load, issue);
			loaded(m, i.loads, i.n_loads, issue, 0, &value);
		}
		value = ready_at(m->ready, i.reads, i.n_reads, value);
		if (i.atomic)
			value = atomic_done = most(value, atomic_done) + i.latency;
		else if (i.ports)
			value = take(m, i.ports, value) + i.latency;
		for (int64_t k = 0; k < i.n_writes; k++)
			m->ready[i.writes[k]] = value;
		for (int64_t k = 0; k < i.n_bumps; k++)
			m->ready[i.bumps[k]] = take(m, m->alu, where) + 1;
		finished = most(finished, value);
		if (i.stores) {
			int64_t there;

			for (int64_t k = i.store_cycles; k--;)
				where = take(m, m->store, where);
			known = most(known, where + 1);
			there = m->data ? take(m, m->data, value) : value;
			finished = most(most(finished, where + 1), there + 1);
			for (int64_t k = i.stores; k--;) {
				int64_t next = most(finished, m->drained[m->n_drained - m->per_cycle] + 1);

				m->written[n_written++] = value;
				m->drained[m->n_drained++] = next;
			}
		}
		m->done[count++ % m->window] = finished;
		if (missed && missed[n])
			restart(m, value + m->mispredict);
		else if (i.bubble >= 0) {
			m->fetched += 1 + i.bubble;
			m->left = m->fetch;
		}
		if (i.keeps) {
			m->cycle += i.keeps;
			m->room = m->width;
		}
	}
	state[0] = finished, state[1] = known, state[2] = atomic_done, state[3] = count;
	*clocks++ = m->cycle;
	*clocks++ = m->fetched;
	*clocks++ = finished;
	*clocks++ = m->drained[m->n_drained - 1];
	*clocks++ = known;
	*clocks++ = atomic_done;
	for (int64_t k = 0; k < m->n_registers; k++)
		*clocks++ = m->ready[k];
	for (int64_t k = 0; k < n_written; k++)
		*clocks++ = m->written[k];
	return 6 + m->n_registers + n_written;
}

NO_CALLS static int64_t in_order(struct model *m, const uint8_t *missed, int64_t *clocks, int64_t *state)
{
	int64_t finished = state[0], n_written = 0;
	const int32_t *at = m->items;
	struct item i;

	for (int64_t n = 0; n < m->n_items && !m->full; n++) {
		int64_t issue, delay = 0, value;

		at = parsed(at, &i);
		issue = fetch(m, i.slots);
		if (i.barrier)
			issue = most(issue, finished + i.barrier);
		issue = ready_at(m->ready, i.address, i.n_address, issue);
		issue = ready_at(i.can_be_late ? m->late : m->ready, i.reads, i.n_reads, issue);
		if (i.ports)
			issue = take(m, i.ports, issue);
		for (int64_t k = m->load ? i.load_cycles : 0; k--;)
			issue = take(m, m->load, issue);
		for (int64_t k = m->store ? i.store_cycles : 0; k--;)
			issue = take(m, m->store, issue);
		hand_out(m, i.slots, issue);
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
	state[0] = finished;
	*clocks++ = m->cycle;
	*clocks++ = finished;
	for (int64_t k = 0; k < m->n_registers; k++)
		*clocks++ = m->ready[k];
	for (int64_t k = 0; k < m->n_registers; k++)
		*clocks++ = m->late[k];
	for (int64_t k = 0; k < n_written; k++)
		*clocks++ = m->written[k];
	return 2 + 2 * m->n_registers + n_written;
}

/* Did all clocks pass the same number of cycles in each of `times` groups of repetitions, of which `last` was the last? */
static int alike(const int64_t *history, int64_t width, int64_t clocks, int64_t last, int64_t group, int64_t times, int64_t *took)
{
	if (last < group * times)
		return 0;
	*took = 0;
	for (int64_t k = 0; k < clocks; k++) {
		const int64_t *now = history + last * width + k;
		int64_t passed = now[0] - now[-group * width];

		for (int64_t t = 1; t < times; t++)
			if (now[-t * group * width] - now[-(t + 1) * group * width] != passed)
				return 0;
		if (!k || passed > *took)
			*took = passed;
	}
	return 1;
}

static int64_t run(struct model *m)
{
	int64_t width = (m->in_order ? 2 + 2 * m->n_registers : 6 + m->n_registers) + m->n_stores, clocks = 0, half = m->repetitions / 2;
	int64_t state[4] = { 0, 0, 0, 0 };

	m->full = m->n_kinds = m->fetched = m->cycle = m->last = 0;
	m->left = m->fetch;
	m->room = m->width;
	for (int64_t n = 0; n < m->repetitions; n++) {
		const uint8_t *missed = m->set[n] < 0 ? 0 : m->missed + m->set[n] * m->n_items;
		int64_t *was = m->before;

		m->before = m->written;
		m->written = was;
		clocks = (m->in_order ? in_order : out_of_order)(m, missed, m->history + n * width, state);
		if (m->full)
			return m->full;
		m->over = 1;
		if (alike(m->history, width, clocks, n, 1, 4, &m->took))
			return 0;
		m->over = 4;
		if (alike(m->history, width, clocks, n, 4, 2, &m->took))
			return 0;
	}
	m->over = m->repetitions - half;
	for (int64_t k = 0; k < clocks; k++) {
		int64_t passed = m->history[(m->repetitions - 1) * width + k] - m->history[(half - 1) * width + k];

		if (!k || passed > m->took)
			m->took = passed;
	}
	return 0;
}

/* 0, or 1: more cycles than there is room for; 2: more kinds of ports. Leaves cycles as it found them: with nothing. */
NO_CALLS int64_t tramplab_pipeline(struct model *m)
{
	int64_t full = run(m);

	for (int64_t cycle = 0; cycle <= m->last; cycle++)
		m->used[cycle] = 0;
	for (int64_t kind = 0; kind < m->n_kinds; kind++)
		for (int64_t cycle = 0; cycle <= m->last; cycle++)
			m->later[kind * m->n_cycles + cycle] = 0;
	return full;
}
