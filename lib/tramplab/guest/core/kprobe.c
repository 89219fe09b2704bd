/*
 * kprobes: what runs when one is hit, through ftrace or through a breakpoint.
 *
 * get_kprobe() and kprobe_ftrace_handler() stand for the kernel's functions of the same names (v5.17 to v7.2; riscv64 up to
 * v6.9), and so does aggr_pre_handler(), the handler of a kprobe that stands for several at its address. What a breakpoint leads to
 * is in kprobe_<isa>.c, with what those share in kprobe_step.h. Differs: several at an address are all of one request, none of them
 * has a post-handler, and their list is single, because that is what a call of a probed function shows; no fault handlers, because
 * the guest's memory has no faults.
 */
#include "kprobe.h"
#include "hash.h"
#include "kprobe_step.h"
#include "recursion.h"

#pragma clang section text = ".kprobe"

/* Which of several at an address is being handled, for who asked; nobody does any more. */
#ifdef CONFIG_KPROBE_INSTANCE
#define SET_INSTANCE(kp) do { this_pcpu->kprobe_instance = (kp); barrier(); } while (0)
#else
#define SET_INSTANCE(kp) ((void)0)
#endif

struct kprobe *kprobe_table[1 << KPROBE_HASH_BITS];

__attribute__((noinline)) struct kprobe *get_kprobe(unsigned long addr)
{
	unsigned long bucket = (addr * LAB_GOLDEN_RATIO) >> (64 - KPROBE_HASH_BITS);
	struct kprobe *p;

	for (p = READ_ONCE(kprobe_table[bucket]); p; p = READ_ONCE(p->next))
		if (p->addr == addr)
			return p;
	return 0;
}

/* Called by kprobes that are hit inside a kprobe's handler. */
__attribute__((noinline)) void kprobes_inc_nmissed_count(struct kprobe *p)
{
	if (likely(p->pre_handler != aggr_pre_handler)) {
		p->nmissed++;
		return;
	}
	for (p = READ_ONCE(p->list); p; p = READ_ONCE(p->list))
		p->nmissed++;
}

int aggr_pre_handler(struct kprobe *p, struct pt_regs *regs)
{
	struct kprobe *kp;

	IDLE_SITE();
	for (kp = READ_ONCE(p->list); kp; kp = READ_ONCE(kp->list)) {
		if (kp->pre_handler && likely(!(kp->flags & (KPROBE_FLAG_GONE | KPROBE_FLAG_DISABLED)))) {
			SET_INSTANCE(kp);
			if (kp->pre_handler(kp, regs))
				return 1;
		}
		SET_INSTANCE(0);
	}
	return 0;
}

#ifdef CONFIG_KPROBES_ON_FTRACE
/*
 * The registers that the handlers are given. Where the trampoline fills no pt_regs, one is made of what it has saved, as fprobes
 * do since v6.14; no kernel does that for a kprobe.
 */
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_REGS
#define LAB_REGS(fregs) ftrace_get_regs(fregs)
#define LAB_SET_IP(fregs, regs) ((void)(fregs))
#else
#define LAB_REGS(fregs) lab_partial_regs(fregs, &partial)
#define LAB_SET_IP(fregs, regs) ftrace_regs_set_instruction_pointer(fregs, trap_ip(regs))
static inline struct pt_regs *lab_partial_regs(struct ftrace_regs *fregs, struct pt_regs *regs)
{
#if defined(__aarch64__)
	for (unsigned int i = 0; i < sizeof(fregs->regs) / sizeof(long); i++)
		regs->regs[i] = fregs->regs[i];
	regs->regs[29] = fregs->fp;
	regs->regs[30] = fregs->lr;
	regs->sp = fregs->sp;
	regs->pc = fregs->pc;
#elif defined(__riscv)
	for (unsigned int i = 0; i < 8; i++)
		(&regs->a0)[i] = fregs->args[i];
	regs->epc = fregs->epc;
	regs->ra = fregs->ra;
	regs->sp = fregs->sp;
	regs->s0 = fregs->s0;
#endif
	return regs;
}
#endif

void kprobe_ftrace_handler(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
#ifndef CONFIG_DYNAMIC_FTRACE_WITH_REGS
	struct pt_regs partial;
#endif
	struct pt_regs *regs;
	struct kprobe *p;
	unsigned long back;
	int held = trace_recursion_enter(TRACE_FTRACE_START);

	if (!held)
		return;
	p = get_kprobe(ip);
	if (unlikely(!p || p->flags & KPROBE_FLAG_DISABLED))
		goto out;
	if (kprobe_running()) {
		kprobes_inc_nmissed_count(p);
		goto out;
	}
	regs = LAB_REGS(fregs);
	back = ftrace_regs_get_instruction_pointer(fregs);
	trap_set_ip(regs, ip + LAB_BREAKPOINT_SIZE);	/* as a breakpoint would have left it */
	this_pcpu->current_kprobe = p;
	this_pcpu->kprobe_status = KPROBE_HIT_ACTIVE;
	if (!p->pre_handler || !p->pre_handler(p, regs)) {
		trap_set_ip(regs, ip + MCOUNT_INSN_SIZE);	/* what is probed is a NOP to whoever looks */
		if (unlikely(p->post_handler)) {
			this_pcpu->kprobe_status = KPROBE_HIT_SSDONE;
			p->post_handler(p, regs, 0);
		}
		trap_set_ip(regs, back);
	}
	LAB_SET_IP(fregs, regs);
	this_pcpu->current_kprobe = 0;
	barrier();
out:
	trace_recursion_leave(held);
}
#endif
