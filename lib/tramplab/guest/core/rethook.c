/*
 * Return hooks: taking a node, hooking a return, and what the return trampoline calls. Stand for the kernel's functions of the
 * same names, v5.18 to v6.13. Differs: that hooks are being freed is seen by their handler being gone, and their nodes are
 * left, because memory is given back when nothing runs.
 */
#include "rethook.h"

#ifdef CONFIG_RETHOOK
#ifndef CONFIG_FPROBE_ON_RETHOOK
#pragma clang section text = ".kretprobe"
#endif

struct rethook_node *rethook_try_get(struct rethook *rh)
{
	if (unlikely(!READ_ONCE(rh->handler)))
		return 0;
#ifdef CONFIG_RETHOOK_RCU_TEST
	if (unlikely(!rcu_is_watching()))
		return 0;
#endif
#if defined(CONFIG_RETHOOK_SHADOW)
	struct task_struct *t = current;
	unsigned long top = t->rethook_top + rh->size;
	struct rethook_node *node = (struct rethook_node *)(t->rethook_stack + t->rethook_top);

	if (unlikely(top > sizeof(t->rethook_stack)))
		return 0;
	t->rethook_top = top;
	node->rethook = rh;
	return node;
#elif defined(CONFIG_RETHOOK_OBJPOOL)
	return objpool_pop(&rh->ring);
#else
	return (struct rethook_node *)freelist_try_get(&rh->list);
#endif
}

void rethook_recycle(struct rethook_node *node)
{
	struct rethook *rh = node->rethook;

	if (unlikely(!READ_ONCE(rh->handler)))
		return;
#if defined(CONFIG_RETHOOK_SHADOW)
	current->rethook_top -= rh->size;	/* the last that was taken, whichever is recycled: all of a frame are */
#elif defined(CONFIG_RETHOOK_OBJPOOL)
	objpool_push(node, &rh->ring);
#else
	freelist_add(&node->freelist, &rh->list);
#endif
}

static __attribute__((noinline)) void arch_rethook_prepare(struct rethook_node *node, struct ftrace_regs *fregs)
{
	rethook_prepare(node, fregs);
}

void rethook_hook(struct rethook_node *node, struct ftrace_regs *fregs)
{
	arch_rethook_prepare(node, fregs);
	node->next = current->rethooks;
	current->rethooks = node;
}

#ifdef CONFIG_KRETPROBE_ON_RETHOOK
/*
 * The same, with the registers that a kprobe's handler is given: rethook_hook() too, in a kernel, where all are of one kind. mcount:
 * they come from a patch site, which no ISA here asks about.
 */
static __attribute__((noinline, section(".kretprobe"))) void arch_rethook_prepare_probed(struct rethook_node *node,
											 struct pt_regs *regs, _Bool mcount)
{
	unsigned long *place = lab_return_place(regs);

	node->ret_addr = *place;
	node->frame = lab_return_frame(regs);
	*place = (unsigned long)arch_rethook_trampoline;
}

__attribute__((section(".kretprobe"))) void rethook_hook_probed(struct rethook_node *node, struct pt_regs *regs, _Bool mcount)
{
	arch_rethook_prepare_probed(node, regs, mcount);
	node->next = current->rethooks;
	current->rethooks = node;
}
#endif

/* Where the way back is kept besides in the registers. */
static __attribute__((noinline)) void arch_rethook_fixup_return(struct pt_regs *regs, unsigned long back)
{
#ifdef __x86_64__
	*(unsigned long *)(regs + 1) = back;	/* the word that the trampoline began with */
#else
	asm volatile("");
#endif
}

/*
 * Of the calls that were hooked in this frame, all of which return now, the oldest has the caller's address: where a function
 * left by a jump, the one that it jumped to found the trampoline's. Handlers run newest first.
 * Longer than 40 lines because a kernel has it as one function, and its instructions are counted.
 */
unsigned long rethook_trampoline_handler(struct pt_regs *regs, unsigned long frame)
{
	struct rethook_node *node = current->rethooks, *oldest = node;
	unsigned long back = 0;

	for (; oldest; oldest = oldest->next)
		if (oldest->ret_addr != (unsigned long)arch_rethook_trampoline) {
			back = oldest->ret_addr;
			break;
		}
	if (unlikely(!back))
		__builtin_trap();
	lab_return_to(regs, back);

	preempt_disable_notrace();
	for (;; node = node->next) {
		rethook_handler_t handler;

		if (unlikely(!node))
			break;
		if (unlikely(node->frame != frame)) {
			LAB_WARN();
			break;
		}
		handler = READ_ONCE(node->rethook->handler);
		if (handler)
			handler(node, node->rethook->data, back, regs);
		if (node == oldest)
			break;
	}
	arch_rethook_fixup_return(regs, back);

	node = current->rethooks;
	current->rethooks = oldest->next;
	oldest->next = 0;
	while (node) {
		struct rethook_node *done = node;

		node = node->next;
		rethook_recycle(done);
	}
	preempt_enable_notrace();
	return back;
}

/* What the trampoline calls, with the registers that the function left; where its frame was, each ISA knows in its own way. */
unsigned long arch_rethook_trampoline_callback(struct pt_regs *regs)
{
#if defined(__x86_64__)
	unsigned long *frame = (unsigned long *)(regs + 1);

	regs->cs = LAB_KERNEL_CS;
	regs->ip = (unsigned long)arch_rethook_trampoline;
	regs->orig_ax = ~0UL;
	regs->sp += 2 * sizeof(long);		/* the trampoline's word, and ss */
	rethook_trampoline_handler(regs, (unsigned long)frame);
	regs->ss = regs->flags;			/* where they are popped from */
	return 0;
#elif defined(__aarch64__)
	return rethook_trampoline_handler(regs, regs->regs[29]);
#elif defined(__riscv)
	return rethook_trampoline_handler(regs, regs->s0);
#endif
}
#endif
