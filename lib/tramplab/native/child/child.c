/*
 * The process in which the lab kernel runs natively. No libc: it is linked once per ISA and needs nothing from the host.
 *
 * It reads, on its standard input, what memory holds, which bytes each hook changes in it, and what to call; it maps
 * that memory at the guest's own addresses and calls. See native/script.py for the words of both directions.
 */
#include "timing.h"

enum { INPUT_SIZE = 1 << 26, SIGKILL = 9, PR_SET_PDEATHSIG = 1 };

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

/* Longer than 40 lines because it has a branch for each word that the parent may say. */
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
