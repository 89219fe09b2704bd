/*
 * Live patching: where the function goes on is changed. Stands for klp_ftrace_handler(), which does not count calls.
 */
#include "lab.h"
#include "../core/recursion.h"

enum { PATCH_UNPATCHED, PATCH_PATCHED };

#define FUNC_OF(node) ((struct lab_private *)((char *)(node) - __builtin_offsetof(struct lab_private, stack_node)))

/* The replacement that this task is to run, 0 for the function as it was. */
static inline struct lab_private *patched_to(struct lab_private *own)
{
	struct lab_node *node = READ_ONCE(own->func_stack.next);
	struct lab_private *func = FUNC_OF(node);

	own->hits += 1;
	if (unlikely(node == &own->func_stack)) {
		LAB_WARN();
		return 0;
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);	/* the function before its transition, as when a patch is enabled */
	if (unlikely(func->transition)) {
		__atomic_thread_fence(__ATOMIC_ACQUIRE);	/* its transition before the task's state */
		if (current->patch_state == PATCH_UNPATCHED) {
			node = READ_ONCE(node->next);
			if (node == &own->func_stack)
				return 0;	/* there is no patch before this one */
			func = FUNC_OF(node);
		}
	}
	return func->nop ? 0 : func;
}

/* Behind the guard: call what changes where the function goes on, if it does. */
static LAB_INLINED void redirect(struct ftrace_ops *op, struct ftrace_regs *fregs,
				 void (*to)(struct ftrace_regs *fregs, unsigned long ip))
{
	struct lab_private *func;
	int held = trace_recursion_enter(TRACE_FTRACE_START);

	if (unlikely(!held)) {
		LAB_WARN();
		return;
	}
	func = patched_to(op->private);
	if (func)
		to(fregs, func->go_to);
	trace_recursion_leave(held);
}

static inline void to_ip(struct ftrace_regs *fregs, unsigned long ip)
{
	ftrace_regs_set_instruction_pointer(fregs, ip);
}

void lab_livepatch(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	redirect(op, fregs, to_ip);
}

/* The same, and the replacement comes back to a given place before its caller sees it: the stack is changed too. No kernel does. */
extern char lab_came_back[];
unsigned long lab_returns;

static inline void to_call(struct ftrace_regs *fregs, unsigned long ip)
{
	lab_emulate_call(fregs, ip, (unsigned long)lab_came_back);
}

void lab_call_instead(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	redirect(op, fregs, to_call);
}
