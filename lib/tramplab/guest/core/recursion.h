/*
 * The recursion guard: one bit per context (NMI, IRQ, softirq, normal, transition) in the task, one set of bits per
 * user. Stands for trace_test_and_set_recursion() and its release, as of v5.17 and later.
 */
#ifndef LAB_RECURSION_H
#define LAB_RECURSION_H

#include "lab.h"

enum {
	TRACE_CTX_NMI, TRACE_CTX_IRQ, TRACE_CTX_SOFTIRQ, TRACE_CTX_NORMAL, TRACE_CTX_TRANSITION, TRACE_CTX_NR,
};

/* First bit of each user's set. */
enum { TRACE_FTRACE_START = 0, TRACE_LIST_START = TRACE_CTX_NR };

static inline int lab_context_bit(void)
{
	unsigned long count = lab_preempt_count;
	int level = 0;

	level += !!(count & NMI_MASK);
	level += !!(count & (NMI_MASK | HARDIRQ_MASK));
	level += !!(count & (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_OFFSET));
	return TRACE_CTX_NORMAL - level;
}

/* Take the bit of this context; the transition bit gives one more chance while the context changes. -1: recursion. */
static inline int trace_recursion_enter(int start)
{
	struct task_struct *me = current;
	unsigned long held = READ_ONCE(me->trace_recursion);
	int bit = lab_context_bit() + start;

	if (unlikely(held & (1UL << bit))) {
		bit = TRACE_CTX_TRANSITION + start;
		if (held & (1UL << bit))
			return -1;
	}
	me->trace_recursion = held | (1UL << bit);
	barrier();
	preempt_disable_notrace();
	return bit;
}

static inline void trace_recursion_leave(int bit)
{
	struct task_struct *me;

	preempt_enable_notrace();
	barrier();
	me = current;
	me->trace_recursion &= ~(1UL << bit);
}

#endif
