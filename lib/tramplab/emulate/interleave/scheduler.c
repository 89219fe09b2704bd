/*
 * Several CPUs over one memory, in an order that a seed decides: called by the emulator before every instruction and at every
 * access, it holds the CPU whose turn is over and lets another one go on. layout.py has the same structs.
 *
 * Each CPU has a clock, which says when its next instruction happens. Instructions that touch nothing that others see are run
 * ahead of that: between whichever of the others' instructions they come, they do the same. So a CPU is held only before it
 * touches what is shared, or ends an operation, until its clock is the earliest. `every` holds it before each instruction. That
 * nothing else is touched is checked at every access.
 *
 * What an exclusive store does is decided here: it succeeds if the CPU still has its reservation of these bytes, which a store by
 * another CPU ends. No emulator header is needed, and no libc.
 */
#include "clock.h"
#include "work.h"

/* The area that an address lies in; 0 if in none. */
static struct area *find_area(struct lab *l, uint64_t address)
{
	uint64_t low = 0, high = l->nr_areas;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (l->areas[middle].high <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < l->nr_areas && address >= l->areas[low].low ? &l->areas[low] : 0;
}

static uint64_t read_register(struct lab *l, void *engine, int which)
{
	uint64_t value = 0;

	l->read_one(engine, l->ids[which], &value);
	return value;
}

/* Others' reservations of these bytes end. */
static void stored(struct lab *l, uint64_t address)
{
	uint64_t granule = address & -l->granule;

	for (uint64_t n = 0; n < l->nr_cpus; n++)
		if (l->cpus[n].reserved == granule && (int)n != l->current)
			l->cpus[n].reserved = 0;
}

/* In a write of several registers the emulator does not look whether the program counter is among them. */
static void jump(struct lab *l, void *engine, uint64_t pc)
{
	l->write_one(engine, l->ids[l->pc], &pc);
}

static void hold(struct lab *l, void *engine, uint64_t pc)
{
	l->read_batch(engine, l->ids, l->slots + l->current * l->nr_ids, l->nr_ids);
	l->registers[l->current * l->nr_ids + l->pc] = pc;
}

static void go_on(struct lab *l, void *engine, int n)
{
	l->switches += n != l->current;
	l->current = n;
	l->write_batch(engine, l->ids, l->slots + n * l->nr_ids, l->nr_ids);
	jump(l, engine, l->registers[n * l->nr_ids + l->pc]);
}

/* Back from an operation: the next one, after what the CPU does between; at the end of the run what it holds goes back. */
static void next(struct lab *l, void *engine)
{
	int n = l->current;
	struct cpu *c = &l->cpus[n];

	hold(l, engine, 0);
	returned(l, engine, n, l->registers[n * l->nr_ids + l->result]);
	if (l->trouble)
		return;
	if (l->done >= l->target)
		c->wanted = 0;
	else if (c->wanted <= 0 && !c->held)
		c->wanted = l->depth;
	if (c->wanted <= 0 && !c->held) {
		c->parked = 1;
		l->clocks[n] = PARKED;
	} else {
		begin(l, n);
		if (l->between)
			forward(l, n, l->between);
	}
	n = earliest(l);
	if (l->clocks[n] == PARKED)
		l->stop(engine);
	else
		go_on(l, engine, n);
}

/* An exclusive store, instead of the emulator's. */
static void store_conditional(struct lab *l, void *engine, uint64_t pc, struct place *p)
{
	struct cpu *c = &l->cpus[l->current];
	uint64_t address = read_register(l, engine, p->base), value = 0, failed = 1;
	int counts = l->done < l->target;

	if (c->reserved && c->reserved == (address & -l->granule)) {
		failed = 0;
		if (p->value != 0xff)
			value = read_register(l, engine, p->value);
		l->write_memory(engine, address, &value, p->size);
		stored(l, address);
	}
	c->reserved = 0;
	c->succeeded += counts && !failed;
	c->broken += counts && failed;
	l->write_one(engine, l->ids[p->status], &failed);
	jump(l, engine, pc + p->length);
}

/* What an instruction that is issued says of attempts and reservations. */
static void follow(struct lab *l, void *engine, uint64_t pc, struct place *p, int counts)
{
	struct cpu *c = &l->cpus[l->current];

	if (p->kind == LOAD_LINKED) {
		c->attempts += counts;
		c->reserved = read_register(l, engine, p->base) & -l->granule;
	} else if (p->kind == STORE_CONDITIONAL) {
		store_conditional(l, engine, pc, p);
	} else if (p->kind == CLEAR) {
		c->reserved = 0;
	} else if (p->kind == COMPARE_SWAP) {
		c->attempts += counts;
		l->compared = 1;
	}
}

/* Is it another CPU's turn? Then that goes on. */
static int handed_over(struct lab *l, void *engine, uint64_t pc)
{
	int n = earliest(l);

	if (n == l->current)
		return 0;
	hold(l, engine, pc);
	go_on(l, engine, n);
	return 1;
}

/* Before each instruction. */
void tramplab_turn(void *engine, uint64_t pc, uint32_t size, struct lab *l)
{
	struct cpu *c = &l->cpus[l->current];
	struct place *p = &l->places[pc - l->base];
	int open, counts = l->done < l->target, returns = pc == l->return_to;
	struct area *area;

	(void)size;
	if (l->trouble) {
		l->stop(engine);
		return;
	}
	if (l->compared) {
		l->compared = 0;
		c->succeeded += counts && read_register(l, engine, l->flags) & ZERO_FLAG;
	}
	if (!returns && (pc - l->base >= l->length || p->kind == UNKNOWN)) {
		end(l, engine, STRAY, pc);
		return;
	}
	open = returns || p->kind > ACCESS;
	if (!open && p->kind == ACCESS) {
		area = find_area(l, read_register(l, engine, p->base) + p->offset);
		open = area && area->owner == SHARED_BY_ALL;
	}
	if ((open || l->every) && handed_over(l, engine, pc))
		return;
	if (returns) {
		next(l, engine);
		return;
	}
	l->open = open;
	c->issued++;
	forward(l, l->current, 1);
	if (++l->issued > l->limit) {
		end(l, engine, ENDLESS, pc);
		return;
	}
	follow(l, engine, pc, p, counts);
}

/* At each access that the emulator makes; type 17 is a store. */
void tramplab_touch(void *engine, int type, uint64_t address, int size, int64_t value, struct lab *l)
{
	struct area *area = find_area(l, address);

	(void)size;
	(void)value;
	if (area && area->owner == SHARED_BY_ALL) {
		if (!l->open)
			end(l, engine, UNSEEN, address);
		if (type == 17)
			stored(l, address);
	} else if (area ? area->owner != l->current : type == 17) {
		end(l, engine, FOREIGN, address);
	}
}

/* The first operation of each CPU, and who goes first. */
void tramplab_begin(void *engine, struct lab *l)
{
	for (uint64_t n = 0; n < l->nr_cpus; n++) {
		l->cpus[n].wanted = l->depth;
		begin(l, n);
		forward(l, n, 64 + l->between);
	}
	go_on(l, engine, l->current = earliest(l));
}
