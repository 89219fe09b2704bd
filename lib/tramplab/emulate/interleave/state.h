/* What a run is made of, as layout.py has it: code, CPUs, the pool, the schedule, and the emulator's functions. */
#ifndef STATE_H
#define STATE_H

#include <stdint.h>

enum kind { UNKNOWN, LOCAL, ACCESS, SHARED, LOAD_LINKED, STORE_CONDITIONAL, CLEAR, COMPARE_SWAP };
enum trouble { NONE, STRAY, FOREIGN, UNSEEN, TWICE, NO_NODE, ENDLESS };
#define PARKED UINT64_MAX
#define NUMBER_BITS 6 /* a clock ends with its CPU's number: MOST_CPUS of scheduler.py are two to this power */
#define FREE (-1)
#define SHARED_BY_ALL (-1)
#define ZERO_FLAG (1 << 6)

/* One instruction. Registers are numbers in the order of lab.ids, -1 for zero. An ACCESS is at base + offset. */
struct place {
	int32_t offset;
	uint8_t kind, size, length, base, value, status;
};

/* What it has counted; and what it is doing: how many nodes it holds and goes on to take. */
struct cpu {
	uint64_t random, age, reserved;
	uint64_t pops, pushes, misses, avoidable, attempts, succeeded, broken;
	uint64_t pop_issued, push_issued, miss_issued, longest;
	uint64_t issued, began;
	int64_t dried;
	int32_t held, wanted, popping, parked;
};

struct area {
	uint64_t low, high;
	int64_t owner;
};

struct lab {
	/* code, and what its instructions are, by offset */
	uint64_t base, length, pop, push, return_to;
	struct place *places;
	/* CPUs */
	struct cpu *cpus;
	uint64_t *clocks;		/* ticks, a draw and the CPU's number, so that no two are equal */
	uint64_t *registers, **slots;	/* of CPUs that are held, nr_ids of each, and the addresses of these */
	uint64_t nr_cpus;
	int32_t *ids;
	uint64_t nr_ids;
	int32_t pc, sp, link, argument, result, flags;	/* in the order of ids; link -1 where the stack has the return address */
	/* the pool */
	uint64_t pool, depth, nr_nodes, nr_areas, granule;
	uint64_t *nodes;		/* sorted */
	int32_t *owners;
	uint64_t *stacks;		/* the nodes that each CPU holds, depth of each */
	struct area *areas;		/* sorted: what is shared, and what is one CPU's own; all else nobody may write */
	int64_t sure;			/* nodes that lie in the pool whatever those do that are taking one */
	uint64_t dried;			/* how often there were less than none of them */
	/* the schedule */
	uint64_t coin, stall_bits, stall_ticks, slice, between, every;
	/* the run */
	uint64_t target, done, limit, issued, switches;
	uint64_t where;
	int32_t current, compared, open, trouble;
	int (*read_batch)(void *engine, int32_t *ids, uint64_t **values, int count);
	int (*write_batch)(void *engine, int32_t *ids, uint64_t **values, int count);
	int (*read_one)(void *engine, int id, void *value);
	int (*write_one)(void *engine, int id, const void *value);
	int (*write_memory)(void *engine, uint64_t address, const void *bytes, uint64_t size);
	int (*stop)(void *engine);
};

#endif
