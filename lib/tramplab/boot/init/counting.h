/* The instructions that system calls take, by the clock. */
#ifndef INIT_COUNTING_H
#define INIT_COUNTING_H

#include "text.h"

enum { MAX_BLOCKS = 256 };

static u64 number, argument;

/*
 * Virtual time, which passes by one nanosecond with each instruction. x86-64's counter shows every one of them, the others' their
 * 16th or 100th: edge() waits there until the counter changes, and says after how many turns of a loop it did.
 */
static inline u64 edge(u64 *at)
{
	u64 turns = 0, t;
#if defined(__x86_64__)
	unsigned low, high;

	asm volatile("rdtsc" : "=a"(low), "=d"(high) :: "memory");
	t = low | (u64)high << 32;
#else
	u64 first;
#if defined(__aarch64__)
	asm volatile("mrs %1, cntvct_el0\n"
		     "1: add %0, %0, #1; mrs %2, cntvct_el0; cmp %2, %1; b.eq 1b"
		     : "+r"(turns), "=&r"(first), "=&r"(t) :: "cc", "memory");
#else
	asm volatile("rdtime %1\n"
		     "1: addi %0, %0, 1; rdtime %2; beq %2, %1, 1b"
		     : "+r"(turns), "=&r"(first), "=&r"(t) :: "memory");
#endif
#endif
	*at = t;
	return turns;
}

static void calls(u64 n)
{
	while (n--)
		sys(number, argument, 0, 0, 0, 0, 0);
}

static void loops(u64 n)
{
#if defined(__x86_64__)
	asm volatile("1: nop; dec %0; jnz 1b" : "+r"(n) :: "cc");
#elif defined(__aarch64__)
	asm volatile("1: nop; subs %0, %0, #1; b.ne 1b" : "+r"(n) :: "cc");
#else
	asm volatile("1: nop; addi %0, %0, -1; bnez %0, 1b" : "+r"(n));
#endif
}

static u64 taken[2 * MAX_BLOCKS], turns[2 * MAX_BLOCKS];

/* The counter's units that n of these take, and the turns of edge() until the last unit was full. */
__attribute__((noinline)) static void block(void (*what)(u64), u64 n, u64 i)
{
	u64 start, end;

	edge(&start);
	what(n);
	turns[i] = edge(&end);
	taken[i] = end - start;
}

static void count(void (*what)(u64), u64 n, u64 blocks)
{
	if (blocks > MAX_BLOCKS)
		blocks = MAX_BLOCKS;
	for (u64 i = 0; i < 2 * blocks; i++)
		block(what, i % 2 ? 2 * n : n, i);
	put_word("counted");
	for (u64 i = 0; i < 2 * blocks; i++) {
		put_number(taken[i]);
		put_number(turns[i]);
	}
	end_line();
}

#endif
