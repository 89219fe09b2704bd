/* Calls with a hook, and what ends the child where one of them crashes or hangs. */
#ifndef CHILD_CALLS_H
#define CHILD_CALLS_H

#include "hooks.h"

enum { SIGILL = 4, SIGTRAP = 5, SIGBUS = 7, SIGFPE = 8, SIGSEGV = 11, SIGALRM = 14 };
enum { SA_SIGINFO = 4, SA_ONSTACK = 0x08000000, ITIMER_REAL = 0 };

static struct base base;
static u64 repeat, limit_ms;

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

#endif
