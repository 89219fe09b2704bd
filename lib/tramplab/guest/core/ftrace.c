/*
 * What runs per call between the trampoline and the callback.
 *
 * ftrace_ops_list_func(): every registered ops is asked whether it wants this function; stands for the kernel's
 * function of the same name (v5.17 to v7.2: one recursion guard, then per ops stub test, RCU test, hash test, warning test,
 * call). The hash test is a call, hash_contains_ip(), and what it is given is a copy of the ops' hashes, made on the stack with
 * a release for each pointer, as the kernel's is.
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

/* Set when an ops without a function was met: from then on the kernel traces nothing. */
_Bool ftrace_disabled;

static __attribute__((noinline, cold)) void ftrace_kill(void)
{
	ftrace_disabled = 1;
	function_trace_op = &ftrace_list_end;
}

/* Do an ops' hashes let calls from ip through: in the filter (or no filter), and not in the notrace hash? */
__attribute__((noinline)) _Bool hash_contains_ip(unsigned long ip, struct ftrace_ops_hash *hash)
{
	if (!lab_hash_empty(hash->filter_hash) && !lab_hash_find(hash->filter_hash, ip))
		return 0;
	return lab_hash_empty(hash->notrace_hash) || !lab_hash_find(hash->notrace_hash, ip);
}

/*
 * Does this ops want calls from ip? Where there are two kinds of trampoline, one that asked for registers is not called without
 * them, as may happen while sites change.
 */
static inline _Bool lab_ops_test(struct ftrace_ops *op, unsigned long ip, struct pt_regs *regs)
{
	struct ftrace_ops_hash hash = {};

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_REGS
	if (!regs && (op->flags & FTRACE_OPS_FL_SAVE_REGS))
		return 0;
#endif
	PUBLISH(hash.filter_hash, op->func_hash->filter_hash);
	PUBLISH(hash.notrace_hash, op->func_hash->notrace_hash);
	return hash_contains_ip(ip, &hash);
}

#ifdef CONFIG_FUNCTION_GRAPH_TRACER
_Bool ftrace_ops_test(struct ftrace_ops *op, unsigned long ip, struct pt_regs *regs)
{
	return lab_ops_test(op, ip, regs);
}
#endif

void ftrace_ops_list_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *unused, struct ftrace_regs *fregs)
{
	struct pt_regs *regs = fregs ? ftrace_get_regs(fregs) : 0;
	struct ftrace_ops *op;
	int others;

	others = trace_recursion_enter(TRACE_LIST_START);
	if (!others)
		return;
	op = READ_ONCE(ftrace_ops_list);
	do {
		if (op->flags & FTRACE_OPS_FL_STUB)
			continue;
		if ((op->flags & FTRACE_OPS_FL_RCU) && !rcu_is_watching())
			continue;
		if (!lab_ops_test(op, ip, regs))
			continue;
		if (unlikely(!op->func)) {
			ftrace_kill();
			break;
		}
		op->func(ip, parent_ip, op, fregs);
	} while ((op = READ_ONCE(op->next)) && op != &ftrace_list_end);
	trace_recursion_leave(others);
}

void ftrace_ops_assist_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	int others = trace_recursion_enter(TRACE_LIST_START);

	if (!others)
		return;
	if (!(op->flags & FTRACE_OPS_FL_RCU) || rcu_is_watching())
		op->func(ip, parent_ip, op, fregs);
	trace_recursion_leave(others);
}
