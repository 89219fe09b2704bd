/*
 * Consumers that call traced functions while they run: the one they hook, which is two_args(), or calls_others(), which calls
 * it. Each counts first. While they call, this CPU is as much deeper in interrupts as lab_reentry_context says: as if one had
 * come in, and its handler had called.
 */
#include "bpf.h"
#include "../core/recursion.h"

long two_args(long a, long b);
long calls_others(long a, long b, long c);

unsigned int lab_reentry_context;
long lab_reentered;
extern unsigned long lab_direct_hits, lab_bpf_hits;

static inline void lab_reenter(void)
{
	lab_preempt_count += lab_reentry_context;
	lab_reentered = two_args(1, 2);
	lab_preempt_count -= lab_reentry_context;
}

static inline void lab_reenter_through(void)
{
	lab_preempt_count += lab_reentry_context;
	lab_reentered = calls_others(1, 2, 3);
	lab_preempt_count -= lab_reentry_context;
}

static inline void lab_count(struct ftrace_ops *op)
{
	*(unsigned long *)op->private += 1;
}

void lab_callback_reenter(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	lab_count(op);
	lab_reenter();
}

void lab_callback_reenter_through(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				  struct ftrace_regs *fregs)
{
	lab_count(op);
	lab_reenter_through();
}

/* Callbacks that take the guard themselves, as one must whose ops does not ask for it; `then`: what they call inside. */
static inline __attribute__((always_inline)) void lab_guarded(struct ftrace_ops *op, void (*then)(void))
{
	int others = trace_recursion_enter(TRACE_FTRACE_START);

	if (!others)
		return;
	lab_count(op);
	if (then)
		then();
	trace_recursion_leave(others);
}

void lab_callback_guarded(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	lab_guarded(op, 0);
}

void lab_callback_guarded_reenter(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				  struct ftrace_regs *fregs)
{
	lab_guarded(op, lab_reenter);
}

void lab_callback_guarded_reenter_through(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
					  struct ftrace_regs *fregs)
{
	lab_guarded(op, lab_reenter_through);
}

/* What the stubs of direct calls run. */
void lab_direct_callback_reenter(void)
{
	lab_direct_hits += 1;
	lab_reenter();
}

void lab_direct_callback_reenter_through(void)
{
	lab_direct_hits += 1;
	lab_reenter_through();
}

/* BPF programs; where the trampoline asks what they return, the function runs. */
unsigned long lab_bpf_count_reenter(unsigned long *ctx)
{
	lab_bpf_hits += 1;
	lab_reenter();
	return 0;
}

unsigned long lab_bpf_count_reenter_through(unsigned long *ctx)
{
	lab_bpf_hits += 1;
	lab_reenter_through();
	return 0;
}
