/*
 * The model of a core that pipeline.py describes. Items come as a stream of numbers (compiled_pipeline.py writes it), and all
 * memory from there, too; where the cycles do not suffice that there is room for, it says so.
 */
#include "orders.h"

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
	struct state state = { 0 };

	m->full = m->n_kinds = m->fetched = m->cycle = m->last = 0;
	m->left = m->fetch;
	m->room = m->width;
	for (int64_t n = 0; n < m->repetitions; n++) {
		const uint8_t *missed = m->set[n] < 0 ? 0 : m->missed + m->set[n] * m->n_items;
		int64_t *was = m->before;

		m->before = m->written;
		m->written = was;
		clocks = (m->in_order ? in_order : out_of_order)(m, missed, m->history + n * width, &state);
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
