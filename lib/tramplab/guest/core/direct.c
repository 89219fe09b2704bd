/*
 * The callback of an ops that stands for a direct call, used when the call had to go through the trampoline
 * (another ops shares the function, or the target is out of the patch site's reach). It only leaves the address for
 * the trampoline to branch to. Stands for call_direct_funcs().
 *
 * Where the address comes from changed: up to v6.3 a hash of all direct calls, from v6.4 the ops itself.
 */
#include "lab.h"
#include "hash.h"

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS

struct ftrace_hash lab_direct_functions;

void call_direct_funcs(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
#ifdef CONFIG_DIRECT_CALL_IN_OPS
	unsigned long addr = READ_ONCE(op->direct_call);
#else
	struct ftrace_func_entry *e = lab_hash_empty(&lab_direct_functions) ? 0 : lab_hash_find(&lab_direct_functions, ip);
	unsigned long addr = e ? e->direct : 0;
#endif
	if (addr)
		arch_ftrace_set_direct_caller(fregs, addr);
}

#endif
