/*
 * What runs per call between the trampoline and the callback.
 *
 * ftrace_ops_list_func(): every registered ops is asked whether it wants this function; stands for the kernel's
 * function of the same name (v5.17 to v7.2: one recursion guard, then per ops stub test, RCU test, hash test, call).
 * ftrace_ops_assist_func(): the guard and the RCU test around a single ops that asked for them.
 */
#include "lab.h"
#include "hash.h"
#include "recursion.h"

struct ftrace_ops ftrace_list_end = { .func = ftrace_stub, .flags = FTRACE_OPS_FL_STUB };
struct ftrace_ops *ftrace_ops_list = &ftrace_list_end;
struct ftrace_ops *function_trace_op = &ftrace_list_end;

/* The ops literal of a callsite nobody traces, and of one that several trace (CALL_OPS only). */
struct ftrace_ops ftrace_nop_ops = { .func = ftrace_stub, .flags = FTRACE_OPS_FL_STUB };
struct ftrace_ops ftrace_list_ops = { .func = ftrace_ops_list_func, .flags = FTRACE_OPS_FL_STUB };

struct task_struct init_task;
struct lab_pcpu lab_boot_pcpu;

/* The registers that the last trap saved; here, because the assembly has its offsets from what this file knows. */
struct pt_regs *lab_trap_regs;

/* Storage that the slow path hands out; it plays the part of the allocator. */
struct ftrace_ops lab_ops_pool[LAB_NR_OPS];
struct ftrace_ops_hash lab_ops_hash_pool[LAB_NR_OPS];
struct lab_private lab_ops_private[LAB_NR_OPS];

__attribute__((noinline)) _Bool rcu_is_watching(void)
{
	_Bool watching;

	preempt_disable_notrace();
	watching = READ_ONCE(this_pcpu->rcu_watching) & 1;
	preempt_enable_notrace();
	return watching;
}

void ftrace_ops_list_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *unused, struct ftrace_regs *fregs)
{
	int bit = trace_recursion_enter(TRACE_LIST_START);
	struct ftrace_ops *op;

	if (bit < 0)
		return;
	for (op = READ_ONCE(ftrace_ops_list); op && op != &ftrace_list_end; op = READ_ONCE(op->next)) {
		if (op->flags & FTRACE_OPS_FL_STUB)
			continue;
		if ((op->flags & FTRACE_OPS_FL_RCU) && !rcu_is_watching())
			continue;
		if (ftrace_ops_test(op, ip, fregs))
			op->func(ip, parent_ip, op, fregs);
	}
	trace_recursion_leave(bit);
}

void ftrace_ops_assist_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	int bit = trace_recursion_enter(TRACE_LIST_START);

	if (bit < 0)
		return;
	if (!(op->flags & FTRACE_OPS_FL_RCU) || rcu_is_watching())
		op->func(ip, parent_ip, op, fregs);
	trace_recursion_leave(bit);
}
