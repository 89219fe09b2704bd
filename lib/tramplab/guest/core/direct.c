/*
 * The callback of an ops that stands for a direct call, used when the call had to go through the trampoline
 * (another ops shares the function, or the target is out of the patch site's reach). It only leaves the address for
 * the trampoline to branch to. Stands for call_direct_funcs().
 *
 * Where the address comes from changed: up to v6.3 a hash of all direct calls, from v6.4 the ops itself. Where one ops stands for
 * all of them (x86-64's kernel from v7.0, trampolines/single), it is a hash again, published as a whole.
 */
#include "lab.h"
#include "hash.h"

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS

#ifdef CONFIG_LAB_SINGLE_DIRECT
static struct ftrace_func_entry *lab_empty_buckets[1];
struct ftrace_hash lab_empty_hash = { .buckets = lab_empty_buckets };
struct ftrace_hash *direct_functions = &lab_empty_hash;

static inline unsigned long lab_find_direct(unsigned long ip)
{
	struct ftrace_func_entry *e = lab_hash_find(READ_ONCE(direct_functions), ip);

	return e ? e->direct : 0;
}

/* For ftrace_caller, if it asks in C: where a direct call from ip goes, 0 if there is none. */
unsigned long ftrace_find_rec_direct(unsigned long ip)
{
	return lab_find_direct(ip);
}
#else
struct ftrace_hash lab_direct_functions;
#endif

void call_direct_funcs(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
#ifdef CONFIG_DIRECT_CALL_IN_OPS
	unsigned long addr = READ_ONCE(op->direct_call);
#elif defined(CONFIG_LAB_SINGLE_DIRECT)
	unsigned long addr = lab_find_direct(ip);
#else
	struct ftrace_func_entry *e = lab_hash_empty(&lab_direct_functions) ? 0 : lab_hash_find(&lab_direct_functions, ip);
	unsigned long addr = e ? e->direct : 0;
#endif
	if (addr)
		arch_ftrace_set_direct_caller(fregs, addr);
}

#endif
