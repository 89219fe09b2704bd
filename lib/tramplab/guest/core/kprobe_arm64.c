/*
 * arm64: what BRK leads to. kprobe_trap() stands for kprobe_brk_handler() and kprobe_step_trap() for kprobe_ss_brk_handler(),
 * which has a number of its own, post_kprobe_handler() for the function of that name (6.12 and 7.2).
 */
#include "kprobe_step.h"

#pragma clang section text = ".kprobe"

#ifdef __aarch64__
__attribute__((noinline)) void post_kprobe_handler(struct kprobe *p, struct pt_regs *regs)
{
	if (p->resume)
		trap_set_ip(regs, p->resume);
	kprobe_done(p, regs);
	barrier();
}

static inline void setup_singlestep(struct kprobe *p, struct pt_regs *regs)
{
	if (likely(p->slot)) {
		kprobe_run_slot(p, regs);
		return;
	}
	p->simulate(p, regs);
	post_kprobe_handler(p, regs);
}

static __attribute__((noinline)) void reenter_kprobe(struct kprobe *p, struct pt_regs *regs)
{
	kprobe_reentered(p);
	setup_singlestep(p, regs);
}

_Bool kprobe_trap(struct pt_regs *regs)
{
	struct kprobe *running = kprobe_running(), *p = get_kprobe(trap_ip(regs));

	if (unlikely(!p))
		return 0;
	if (unlikely(running)) {
		reenter_kprobe(p, regs);
		return 1;
	}
	this_pcpu->current_kprobe = p;
	this_pcpu->kprobe_status = KPROBE_HIT_ACTIVE;
	if (!p->pre_handler || !p->pre_handler(p, regs)) {
		this_pcpu->kprobe_status = KPROBE_HIT_SS;
		setup_singlestep(p, regs);
	} else {
		this_pcpu->current_kprobe = 0;
	}
	return 1;
}

_Bool kprobe_step_trap(struct pt_regs *regs)
{
	struct kprobe *p = kprobe_running();

	if (unlikely(!p || !kprobe_is_stepped() || p->slot_end != trap_ip(regs)))
		return 0;
	kprobe_restore_state(regs);
	post_kprobe_handler(p, regs);
	return 1;
}
#endif
