/*
 * The counting hooks, called by the emulator for every instruction (and, when recording, every memory access).
 *
 * No emulator header is needed: a code hook is f(engine, address, size, state), a memory hook
 * f(engine, type, address, size, value, state). Compiled on the reader's machine; the
 * tests have the same in Python (support/models/python_meter.py).
 */
#include <stdint.h>

struct range {
	uint64_t base, size;
	uint32_t *executed;	/* per byte of text: how often an instruction starting here was issued */
	uint32_t *taken;	/* per byte of text: how often the next instruction was not the one behind it */
	uint32_t *touched;	/* offsets of the instructions that were issued, each once */
	uint64_t nr_touched, max_touched;
};

struct event {
	uint64_t pc, address, sp;
	uint32_t size;
	uint32_t kind;		/* 0 instruction, 1 load, 2 store */
};

struct meter {
	struct range *here;	/* the range of the last instruction */
	uint64_t next;		/* where execution goes on if no branch is taken */
	uint64_t last;		/* offset of the last instruction in `here` */
	uint64_t budget;	/* instructions left before the run is stopped */
	struct range *ranges;
	uint64_t nr_ranges;
	void (*stop)(void *engine);
	/* recording only */
	struct event *events;
	uint64_t nr_events, max_events, lost_events;
	uint64_t pc;
	int (*read_register)(void *engine, int id, void *value);
	int32_t sp_id;
	uint32_t stopped;
};

static struct range *find(struct meter *m, uint64_t address)
{
	for (uint64_t i = 0; i < m->nr_ranges; i++)
		if (address - m->ranges[i].base < m->ranges[i].size)
			return &m->ranges[i];
	return 0;
}

static int count(void *engine, uint64_t address, uint32_t size, struct meter *m)
{
	struct range *r = m->here;
	uint64_t offset = address - r->base;

	if (!m->budget) {
		m->stopped = 1;
		m->stop(engine);
		return 0;
	}
	m->budget--;
	if (address != m->next)
		r->taken[m->last]++;
	if (offset >= r->size) {
		struct range *other = find(m, address);

		if (!other) {
			m->next = address + size;
			return 1;
		}
		m->here = r = other;
		offset = address - r->base;
	}
	if (!r->executed[offset]++) {
		if (r->nr_touched < r->max_touched)
			r->touched[r->nr_touched] = offset;
		r->nr_touched++;
	}
	m->last = offset;
	m->next = address + size;
	return 1;
}

void tramplab_count(void *engine, uint64_t address, uint32_t size, struct meter *m)
{
	count(engine, address, size, m);
}

static void record(struct meter *m, uint64_t address, uint32_t size, uint32_t kind, uint64_t sp)
{
	if (m->nr_events >= m->max_events) {
		m->lost_events++;
		return;
	}
	m->events[m->nr_events++] = (struct event){ m->pc, address, sp, size, kind };
}

void tramplab_record(void *engine, uint64_t address, uint32_t size, struct meter *m)
{
	uint64_t sp = 0;

	if (!count(engine, address, size, m))
		return;
	m->pc = address;
	m->read_register(engine, m->sp_id, &sp);
	record(m, address, size, 0, sp);
}

/* The emulator's access types: 16 read, 17 write. */
void tramplab_access(void *engine, int type, uint64_t address, int size, int64_t value, struct meter *m)
{
	(void)engine;
	(void)value;
	record(m, address, size, type == 17 ? 2 : 1, 0);
}
