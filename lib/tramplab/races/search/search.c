/*
 * All states of several threads and a patcher, nearest first: called by search.py, which has the same structs and says what they
 * mean. No libc is needed; all memory is the caller's.
 *
 * A state is one word: the moment in the lowest bits, and above it a code for each thread, which is its place in the table and,
 * in the lowest bit, whether the patcher waits for it. Equal threads are sorted, if asked, so that of the states that differ in
 * their order alone one is visited.
 */
#include <stdint.h>

#define MOST_THREADS 16
#define VIOLATION 0x80000000u
#define NEVER 0xffffffffu

enum how { GOES_ON, ALL_SEEN, WRONG, FULL };

struct search {
	const uint32_t *first;		/* of each (moment, code): its successors begin there */
	const uint32_t *successors;	/* codes, or VIOLATION and its number */
	const uint32_t *carried;	/* of each (moment, code): the code at the beginning of that moment */
	const uint8_t *empty;		/* of each moment: does it only begin when all threads are idle? */
	const uint32_t *next_first;	/* of each moment: those that can be next begin there */
	const uint32_t *next;
	uint64_t nr_moments, nr_codes, nr_threads, sorted;
	uint64_t moment_bits, code_bits;
	uint64_t *states;		/* in the order in which they were found */
	uint32_t *slots;		/* a hash of those: number + 1, 0 where there is none */
	uint64_t capacity, slot_mask;
	uint64_t head, tail, level_end, depth, transitions;
	uint64_t violation;
};

static uint64_t mixed(uint64_t word)
{
	word ^= word >> 31;
	word *= 0x9e3779b97f4a7c15u;
	return word ^ word >> 29;
}

/* Is there room for a state, if it is new? */
static int add(struct search *s, uint64_t moment, const uint32_t *codes)
{
	uint32_t order[MOST_THREADS];
	uint64_t state = 0, at;

	for (uint64_t n = 0; n < s->nr_threads; n++) {
		uint64_t place = n;

		for (; s->sorted && place && order[place - 1] > codes[n]; place--)
			order[place] = order[place - 1];
		order[place] = codes[n];
	}
	for (uint64_t n = 0; n < s->nr_threads; n++)
		state = state << s->code_bits | order[n];
	state = state << s->moment_bits | moment;
	for (at = mixed(state) & s->slot_mask; s->slots[at]; at = (at + 1) & s->slot_mask)
		if (s->states[s->slots[at] - 1] == state)
			return 1;
	if (s->tail == s->capacity)
		return 0;
	s->states[s->tail++] = state;
	s->slots[at] = (uint32_t)s->tail;
	return 1;
}

/* The patcher goes on to a moment, if nobody keeps it. */
static int patch(struct search *s, uint64_t to, const uint32_t *codes)
{
	uint32_t after[MOST_THREADS];

	for (uint64_t n = 0; n < s->nr_threads; n++) {
		if (codes[n] & 1 || (s->empty[to] && codes[n]))
			return 1;
		after[n] = s->carried[to * s->nr_codes + codes[n]];
	}
	s->transitions++;
	return add(s, to, after);
}

/* Add the states after each step that thread n can make; GOES_ON, or what ends the search. */
static int steps(struct search *s, uint64_t moment, uint32_t *codes, uint64_t n)
{
	uint32_t mine = codes[n];
	const uint32_t *row = &s->first[moment * s->nr_codes + mine];

	for (uint32_t at = row[0]; at < row[1]; at++) {
		s->transitions++;
		if (s->successors[at] & VIOLATION) {
			s->violation = s->successors[at] & ~VIOLATION;
			return WRONG;
		}
		codes[n] = s->successors[at];
		if (!add(s, moment, codes))
			return FULL;
	}
	codes[n] = mine;
	return GOES_ON;
}

/* Visit so many states more. */
int tramplab_search(struct search *s, uint64_t budget)
{
	uint64_t end = s->head + budget;
	uint32_t codes[MOST_THREADS];

	for (; s->head < s->tail; s->head++) {
		uint64_t state = s->states[s->head], moment = state & (((uint64_t)1 << s->moment_bits) - 1);

		if (s->head == end)
			return GOES_ON;
		if (s->head == s->level_end) {
			s->level_end = s->tail;
			s->depth++;
		}
		state >>= s->moment_bits;
		for (uint64_t n = s->nr_threads; n-- > 0; state >>= s->code_bits)
			codes[n] = state & (((uint64_t)1 << s->code_bits) - 1);
		for (uint64_t n = 0; n < s->nr_threads; n++) {
			int how = s->sorted && n && codes[n - 1] == codes[n] ? GOES_ON : steps(s, moment, codes, n);

			if (how != GOES_ON)
				return how;
		}
		for (uint32_t at = s->next_first[moment]; at < s->next_first[moment + 1]; at++)
			if (!patch(s, s->next[at], codes))
				return FULL;
	}
	return ALL_SEEN;
}
