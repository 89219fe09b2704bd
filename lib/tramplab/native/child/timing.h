/* Batches of calls, timed or counted. */
#ifndef CHILD_TIMING_H
#define CHILD_TIMING_H

#include "calls.h"
#include "counters.h"

enum { CLOCK_MONOTONIC_RAW = 4, CHAIN = 100, CLOCK_READINGS = 1000, STEPS_PER_BATCH = 200, LEAST_TIMES = 100 };
enum { MOST_TIMES = 1 << 20, COUNTED_ROUNDS = 20, COUNTED_TIMES = 20 };

static u64 chain;

static u64 now(void)
{
	u64 t[2];

	sys(SYS_CLOCK_GETTIME, CLOCK_MONOTONIC_RAW, (long)t, 0, 0, 0, 0);
	return t[0] * 1000000000 + t[1];
}

/* What asking for the time costs by itself, the least of many times; and at most how far apart two times are that differ. */
static void look_at_clock(u64 *cost, u64 *step)
{
	*cost = *step = -1UL;
	for (int i = 0; i < CLOCK_READINGS; i++) {
		u64 start = now(), apart = now() - start;

		*cost = apart < *cost ? apart : *cost;
		if (apart && apart < *step)
			*step = apart;
	}
}

static u64 timed(u64 loop, u64 times, u64 cost)
{
	u64 start = now(), end;

	enter(loop, times, &base);
	end = now();
	return end - start > cost ? end - start - cost : 0;
}

/* A batch of a hook's calls, after some that are not timed. */
static u64 time_batch(struct hook *h, u64 times, u64 warm, u64 cost)
{
	u64 ns;

	attach(h);
	call(h, warm);
	set_alarm(limit_ms);
	ns = timed(repeat, times, cost);
	set_alarm(0);
	h->calls += times;
	collect(h);
	return ns;
}

/* How many times take so many ns, where `tried` took ns. "batch TIMES NAME" */
static u64 choose_batch(u64 batch_ns, u64 tried, u64 ns, const char *name)
{
	u64 times = batch_ns * tried / (ns ? ns : 1);

	times = times < LEAST_TIMES ? LEAST_TIMES : times > MOST_TIMES ? MOST_TIMES : times;
	put_word("batch");
	put_number(times);
	put_name(name);
	end_line();
	return times;
}

/*
 * Rounds of one short batch per hook, so that whatever slows the machine down for a while meets all of them; and in
 * each round one batch of the chain, under the name "-". All batches take about as long, or longer where the clock has
 * coarse steps. "total CALLS SEEN... NAME", "time NS... NAME"
 */
static void time_all(u64 batch_ns, u64 warm, u64 rounds)
{
	u64 *ns = reserve((nr_hooks + 1) * rounds * sizeof(*ns)), *at = ns, cost, step, chain_batch;

	look_at_clock(&cost, &step);
	if (step != -1UL && batch_ns < STEPS_PER_BATCH * step)
		batch_ns = STEPS_PER_BATCH * step;
	for (struct hook *h = hooks; h < hooks + nr_hooks; h++)
		h->batch = choose_batch(batch_ns, warm, time_batch(h, warm, warm, cost), h->name);
	chain_batch = choose_batch(batch_ns, CHAIN, timed(chain, CHAIN, cost), "-");
	for (u64 round = 0; round < rounds; round++) {
		for (struct hook *h = hooks; h < hooks + nr_hooks; h++)
			*at++ = time_batch(h, h->batch, warm, cost);
		*at++ = timed(chain, chain_batch, cost);
	}
	for (struct hook *h = hooks; h < hooks + nr_hooks; h++)
		put_seen("total", h, h->calls);
	for (u64 i = 0; i <= nr_hooks; i++) {
		put_word("time");
		for (u64 round = 0; round < rounds; round++)
			put_number(ns[round * (nr_hooks + 1) + i]);
		put_name(i < nr_hooks ? hooks[i].name : "-");
		end_line();
	}
}

/*
 * Rounds of batches that are counted, not timed; longer ones, as starting and stopping costs more than asking for the
 * time. "count CALLS WANTED_NS COUNTED_NS COUNTS... NAME"
 */
static void count_all(u64 warm)
{
	for (u64 i = 0; i < COUNTED_ROUNDS * nr_hooks; i++) {
		struct hook *h = &hooks[i % nr_hooks];
		u64 calls = h->batch * COUNTED_TIMES;

		attach(h);
		call(h, warm);
		put_word("count");
		put_number(calls);
		set_alarm(limit_ms);
		start_counting();
		enter(repeat, calls, &base);
		stop_and_put_counts();
		set_alarm(0);
		put_name(h->name);
		end_line();
	}
}

#endif
