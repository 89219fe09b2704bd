/*
 * The process in which the lab kernel runs natively. No libc: it is linked once per ISA and needs nothing from the host.
 *
 * It reads, on its standard input, what memory holds, which bytes each hook changes in it, and what to call; it maps
 * that memory at the guest's own addresses and calls. See native/script.py for the words of both directions.
 */
#include "arch.h"
#include "text.h"
#include "memory.h"
#include "counters.h"

enum { MAX_HOOKS = 256, MAX_PATCHES = 1 << 16, MAX_WATCHED = 1 << 14, INPUT_SIZE = 1 << 26 };
enum { SIGILL = 4, SIGTRAP = 5, SIGBUS = 7, SIGFPE = 8, SIGKILL = 9, SIGSEGV = 11, SIGALRM = 14 };
enum { SA_SIGINFO = 4, SA_ONSTACK = 0x08000000, ITIMER_REAL = 0, PR_SET_PDEATHSIG = 1, CLOCK_MONOTONIC_RAW = 4 };
enum { CHAIN = 100, CLOCK_READINGS = 1000, STEPS_PER_BATCH = 200, LEAST_TIMES = 100, MOST_TIMES = 1 << 20 };
enum { COUNTED_ROUNDS = 20, COUNTED_TIMES = 20 };

struct patch {
	u64 address, size;
	u8 *bytes;
};

static struct hook {
	char *name;
	u64 calls, batch; /* calls so far, and calls in one batch */
	struct patch *patches;
	u64 nr_patches, **watched, *seen, nr_watched;
} hooks[MAX_HOOKS], *running;
static u64 nr_hooks;

static struct patch patches[MAX_PATCHES];
static u64 *watched[MAX_WATCHED], seen[MAX_WATCHED];
static u64 nr_patches, nr_watched;

static struct base base;
static u64 repeat, chain, limit_ms;

/* A signal ends the child: "died SIGNAL PC ADDRESS HOOK"; but not the one of a write before which a page was to be kept. */
static void on_signal(int signal, void *info, void *ucontext)
{
	u64 address = *(u64 *)((char *)info + 16);

	if (signal == SIGSEGV && kept_now(address))
		return;
	put_word("died");
	put_number(signal);
	put_number(*(u64 *)((char *)ucontext + PC_IN_UCONTEXT));
	put_number(address);
	put_name(running ? running->name : "-");
	end_line();
	leave(3);
}

static void catch_signals(void)
{
	static const int caught[] = { SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGALRM };
	static char stack[1 << 16] __attribute__((aligned(16)));
	struct { void *address; long flags; u64 size; } where = { stack, 0, sizeof(stack) };
	struct sigaction action = { .handler = on_signal, .flags = SA_SIGINFO | SA_ONSTACK | SA_ARCH, RESTORER };

	sys(SYS_SIGALTSTACK, (long)&where, 0, 0, 0, 0, 0);
	for (u64 i = 0; i < sizeof(caught) / sizeof(*caught); i++)
		sys(SYS_SIGACTION, caught[i], (long)&action, 0, 8, 0, 0);
}

/* SIGALRM in so many milliseconds; 0 calls it off. */
static void set_alarm(u64 ms)
{
	u64 timer[4] = { 0, 0, ms / 1000, ms % 1000 * 1000 };

	sys(SYS_SETITIMER, ITIMER_REAL, (long)timer, 0, 0, 0, 0);
}

static u64 now(void)
{
	u64 t[2];

	sys(SYS_CLOCK_GETTIME, CLOCK_MONOTONIC_RAW, (long)t, 0, 0, 0, 0);
	return t[0] * 1000000000 + t[1];
}

/* Put back what other hooks and their calls changed, and put in what this one changes. */
static void attach(struct hook *h)
{
	put_back();
	for (u64 i = 0; i < h->nr_patches; i++)
		write_memory(h->patches[i].address, h->patches[i].bytes, h->patches[i].size);
	close_text();
	running = h;
}

static u64 call(struct hook *h, u64 times)
{
	u64 value;

	h->calls += times;
	set_alarm(limit_ms);
	value = enter(repeat, times, &base);
	set_alarm(0);
	return value;
}

/* Add what the watched words counted to what was seen before; they start from zero again. */
static void collect(struct hook *h)
{
	for (u64 i = 0; i < h->nr_watched; i++) {
		h->seen[i] += *h->watched[i];
		*h->watched[i] = 0;
	}
}

/* "WORD NUMBER SEEN... NAME" */
static void put_seen(const char *word, struct hook *h, u64 number)
{
	put_word(word);
	put_number(number);
	for (u64 i = 0; i < h->nr_watched; i++)
		put_number(h->seen[i]);
	put_name(h->name);
	end_line();
}

/* Some calls of each hook, for the parent to compare with the emulated one. */
static void check(u64 calls)
{
	for (struct hook *h = hooks; h < hooks + nr_hooks; h++) {
		u64 value;

		attach(h);
		value = call(h, calls);
		collect(h);
		put_seen("check", h, value);
		flush();
	}
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

static void pin(u64 cpu)
{
	u64 mask[128] = { 0 }; /* 8192 CPUs */

	if (cpu / 64 < sizeof(mask) / sizeof(*mask))
		mask[cpu / 64] = 1UL << cpu % 64;
	put_word("pinned");
	put_number(-sys(SYS_SETAFFINITY, 0, sizeof(mask), (long)mask, 0, 0, 0));
	end_line();
}

static void read_input(void)
{
	char *p = in = reserve(INPUT_SIZE);
	long n;

	while ((n = sys(SYS_READ, 0, (long)p, in + INPUT_SIZE - 1 - p, 0, 0, 0)) > 0)
		p += n;
	if (p == in + INPUT_SIZE - 1)
		refused("input", INPUT_SIZE, 0);
}

static void add_patch(struct hook *h)
{
	struct patch *p = &patches[nr_patches++];
	u64 address = next_number();

	if (nr_patches == MAX_PATCHES)
		refused("input", nr_patches, 0);
	p->address = address;
	p->bytes = next_bytes(&p->size);
	h->nr_patches++;
}

static struct hook *add_hook(void)
{
	struct hook *h = &hooks[nr_hooks++];

	if (nr_hooks == MAX_HOOKS)
		refused("input", nr_hooks, 0);
	h->name = next_word();
	h->patches = patches + nr_patches;
	h->watched = watched + nr_watched;
	h->seen = seen + nr_watched;
	return h;
}

static void add_watched(struct hook *h)
{
	watched[nr_watched++] = (u64 *)next_number();
	if (nr_watched == MAX_WATCHED)
		refused("input", nr_watched, 0);
	h->nr_watched++;
}

static void add_map(void)
{
	u64 address = next_number(), size = next_number();

	map(address, size, next_number());
}

static void put_memory(void)
{
	u64 address = next_number(), size;
	u8 *bytes = next_bytes(&size);

	write_memory(address, bytes, size);
}

static void count_with(void)
{
	u64 type = next_number();

	put_word("counter");
	put_number(-add_counter(type, next_number()));
	end_line();
}

void process(void)
{
	u64 batch_ns, warm;
	struct hook *h = hooks;

	sys(SYS_PRCTL, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0); /* nothing is left of a notebook that was killed */
	catch_signals();
	read_input();
	for (char *word = next_word(); *word; word = next_word()) {
		if (same(word, "pin")) {
			pin(next_number());
		} else if (same(word, "base")) {
			base = (struct base){ .task = next_number() };
			base.cpu = next_number();
			base.stack = next_number();
			arch_start(&base);
		} else if (same(word, "loops")) {
			repeat = next_number();
			chain = next_number();
		} else if (same(word, "page")) {
			page_size = next_number();
		} else if (same(word, "limit")) {
			limit_ms = next_number();
		} else if (same(word, "map")) {
			add_map();
		} else if (same(word, "put")) {
			put_memory();
		} else if (same(word, "counter")) {
			count_with();
		} else if (same(word, "hook")) {
			h = add_hook();
		} else if (same(word, "patch")) {
			add_patch(h);
		} else if (same(word, "watch")) {
			add_watched(h);
		} else if (same(word, "check")) {
			seal();
			check(next_number());
		} else if (same(word, "time")) {
			batch_ns = next_number();
			warm = next_number();
			time_all(batch_ns, warm, next_number());
			if (nr_counters)
				count_all(warm);
		} else {
			refused("input", in - word, 0);
		}
	}
	put_word("done");
	end_line();
	leave(0);
}
