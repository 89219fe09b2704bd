/*
 * kretprobes: taking an instance at a function's entry, and running the handlers at its return. Stand for the kernel's functions of
 * the same names (v5.17 to v7.2). Differs: no handler is found gone, because none is unregistered
 * while calls are on their way.
 */
#include "kretprobe.h"

#pragma clang section text = ".kretprobe"

#ifdef CONFIG_OBJPOOL_MASK
unsigned long cpu_possible_mask[1] __attribute__((section(".late_data"))) = { 1 };
unsigned int nr_cpu_ids __attribute__((section(".late_data"))) = 1;
#endif

#ifdef CONFIG_KRETPROBE_ON_RETHOOK
int pre_handler_kretprobe(struct kprobe *p, struct pt_regs *regs)
{
	struct kretprobe *rp = (struct kretprobe *)p;	/* whose first member it is */
	struct rethook_node *node = rethook_try_get(rp->rh);
	struct kretprobe_instance *ri = (struct kretprobe_instance *)node;

	IDLE_SITE();
	if (unlikely(!node)) {
		rp->nmissed++;
		return 0;
	}
	if (rp->entry_handler && rp->entry_handler(ri, regs))
		rethook_recycle(node);
	else
		rethook_hook_probed(node, regs, p->flags & KPROBE_FLAG_FTRACE);
	return 0;
}

/* For the return hook, which does all else. */
void kretprobe_rethook_handler(struct rethook_node *node, void *data, unsigned long ret_addr, struct pt_regs *regs)
{
	struct kretprobe *rp = data;

	IDLE_SITE();
	if (unlikely(!rp || !rp->handler))
		return;
	this_pcpu->current_kprobe = &rp->kp;
	this_pcpu->kprobe_status = KPROBE_HIT_ACTIVE;
	rp->handler((struct kretprobe_instance *)node, regs);
	this_pcpu->current_kprobe = 0;
}
#else
/* Stands for all kprobes while a handler at a return runs, so that kprobes in it are found to be hit inside another one. */
static struct kprobe kprobe_busy __attribute__((section(".late_data")));

static inline struct kretprobe_instance *lab_instance_get(struct kretprobe *rp)
{
#ifdef CONFIG_KRETPROBE_OBJPOOL
	return objpool_pop(&rp->rph->pool);
#else
	return (struct kretprobe_instance *)freelist_try_get(&rp->freelist);
#endif
}

static inline void lab_instance_put(struct kretprobe_instance *ri, struct kretprobe *rp)
{
#ifdef CONFIG_KRETPROBE_OBJPOOL
	objpool_push(ri, &rp->rph->pool);
#else
	freelist_add(&ri->freelist, &rp->freelist);
#endif
}

static __attribute__((noinline)) void recycle_rp_inst(struct kretprobe_instance *ri)
{
	struct kretprobe *rp = get_kretprobe(ri);

	IDLE_SITE();
	if (likely(rp))
		lab_instance_put(ri, rp);
}

static __attribute__((noinline)) void arch_prepare_kretprobe(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	unsigned long *place = lab_return_place(regs);

	ri->ret_addr = *place;
	ri->fp = lab_return_frame(regs);
	*place = (unsigned long)__kretprobe_trampoline;
}

int pre_handler_kretprobe(struct kprobe *p, struct pt_regs *regs)
{
	struct kretprobe *rp = (struct kretprobe *)p;	/* whose first member it is */
	struct kretprobe_instance *ri = lab_instance_get(rp);

	IDLE_SITE();
	if (unlikely(!ri)) {
		rp->nmissed++;
		return 0;
	}
	if (rp->entry_handler && rp->entry_handler(ri, regs)) {
		lab_instance_put(ri, rp);
		return 0;
	}
	arch_prepare_kretprobe(ri, regs);
	ri->next = current->kretprobe_instances;
	current->kretprobe_instances = ri;
	return 0;
}

/*
 * Of the calls that were hooked in this frame, all of which return now, the oldest has the caller's address. The first that has
 * another one than the trampoline's is it.
 */
static __attribute__((noinline)) struct kretprobe_instance *lab_oldest(void)
{
	struct kretprobe_instance *ri = current->kretprobe_instances;

	while (ri && ri->ret_addr == (unsigned long)__kretprobe_trampoline)
		ri = ri->next;
	return ri;
}

/* Where the way back is kept besides in the registers. */
static __attribute__((noinline)) void arch_kretprobe_fixup_return(unsigned long frame, unsigned long back)
{
	IDLE_SITE();
#ifdef __x86_64__
	*(unsigned long *)frame = back;		/* the word that the trampoline began with */
#endif
}

/* Longer than 40 lines because a kernel has it as one function, and its instructions are counted. */
static __attribute__((noinline)) unsigned long __kretprobe_trampoline_handler(struct pt_regs *regs, unsigned long frame)
{
	struct kretprobe_instance *ri = current->kretprobe_instances, *oldest = lab_oldest();
	unsigned long back;

	IDLE_SITE();
	if (unlikely(!oldest))
		__builtin_trap();
	back = oldest->ret_addr;
	lab_return_to(regs, back);

	for (;; ri = ri->next) {
		struct kretprobe *rp;

		if (unlikely(ri->fp != frame)) {
			LAB_WARN();
			break;
		}
		rp = get_kretprobe(ri);
		if (rp && rp->handler) {
			struct kprobe *before = this_pcpu->current_kprobe;

			this_pcpu->current_kprobe = &rp->kp;
			ri->ret_addr = back;
			rp->handler(ri, regs);
			this_pcpu->current_kprobe = before;
		}
		if (ri == oldest)
			break;
	}
	arch_kretprobe_fixup_return(frame, back);
	ri = current->kretprobe_instances;
	current->kretprobe_instances = oldest->next;
	oldest->next = 0;
	while (ri) {
		struct kretprobe_instance *done = ri;

		ri = ri->next;
		recycle_rp_inst(done);
	}
	return back;
}

/* A handler at a return is one of a kprobe, as far as kprobes are concerned. */
static __attribute__((noinline)) void kprobe_busy_begin(void)
{
	IDLE_SITE();
	preempt_disable_notrace();
	this_pcpu->current_kprobe = &kprobe_busy;
	this_pcpu->kprobe_status = KPROBE_HIT_ACTIVE;
}

static __attribute__((noinline)) void kprobe_busy_end(void)
{
	IDLE_SITE();
	this_pcpu->current_kprobe = 0;
	preempt_enable_notrace();
}

static inline unsigned long kretprobe_trampoline_handler(struct pt_regs *regs, unsigned long frame)
{
	unsigned long back;

	kprobe_busy_begin();
	back = __kretprobe_trampoline_handler(regs, frame);
	kprobe_busy_end();
	return back;
}

/* What the trampoline calls, with the registers that the function left. */
unsigned long trampoline_probe_handler(struct pt_regs *regs)
{
#if defined(__x86_64__)
	unsigned long *frame = &regs->ss;	/* the trampoline's word is where ss would be */

	regs->cs = LAB_KERNEL_CS;
	regs->ip = (unsigned long)__kretprobe_trampoline;
	regs->orig_ax = ~0UL;
	regs->sp += sizeof(long);
	kretprobe_trampoline_handler(regs, (unsigned long)frame);
	regs->sp = regs->flags;			/* where they are popped from */
	return 0;
#else
	return kretprobe_trampoline_handler(regs, lab_return_frame(regs));
#endif
}

#ifdef CONFIG_KRETPROBE_BRK
_Bool kretprobe_trap(struct pt_regs *regs)
{
	if (unlikely(trap_ip(regs) != (unsigned long)__kretprobe_trampoline))
		return 0;
	lab_return_to(regs, kretprobe_trampoline_handler(regs, lab_return_frame(regs)));
	return 1;
}
#endif
#endif
