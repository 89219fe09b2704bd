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

/*
 * Take the bit of this context; the transition bit gives one more chance while the context changes. Gives what is left of the
 * bits when it is given back; 0: recursion, or where that is asked RCU does not watch, of which the kernel warns once. No user
 * has a bit beyond an int's.
 */
static inline int trace_recursion_enter(int start)
{
	struct task_struct *me = current;
	unsigned long held = READ_ONCE(me->trace_recursion);
	int bit;

#ifdef CONFIG_RECURSION_RCU_TEST
	if (unlikely(!rcu_is_watching())) {
		LAB_WARN();
		return 0;
	}
#endif
	bit = 1 << (TRACE_CTX_NORMAL - lab_context_level() + start);

	if (unlikely((int)held & bit)) {
		bit = 1 << (TRACE_CTX_TRANSITION + start);
		if ((int)held & bit)
			return 0;
	}
	me->trace_recursion = held | bit;
	barrier();
	preempt_disable_notrace();
	return ~bit;
}

static inline void trace_recursion_leave(int others)
{
	preempt_enable_notrace();
	barrier();
	current->trace_recursion &= others;
}

#endif
