/*
 * x86-64: what INT3 leads to. kprobe_trap() stands for kprobe_int3_handler(), setup_singlestep() and setup_detour_execution() for
 * the functions of those names (6.1, 6.12 and 7.2). Who has hit a breakpoint that is no kprobe's may be behind a copy. Differs:
 * emulated instructions and the jump in place of the breakpoint are not built, because no function of the lab's begins with one
 * that is emulated, and the jump is for calls that come later.
 */
#include "kprobe_step.h"

#pragma clang section text = ".kprobe"

#ifdef __x86_64__
/* Longest copy, with the breakpoint behind it. */
#define SLOT_SIZE 16

/* A jump stands where the breakpoint was, so the CPU goes on where that leads? */
__attribute__((noinline)) _Bool setup_detour_execution(struct kprobe *p, struct pt_regs *regs, _Bool again)
{
	IDLE_SITE();
	if (unlikely(p->flags & KPROBE_FLAG_OPTIMIZED))
		__builtin_trap();
	return 0;
}

__attribute__((noinline)) void setup_singlestep(struct kprobe *p, struct pt_regs *regs, _Bool again)
{
	IDLE_SITE();
	if (setup_detour_execution(p, regs, again))
		return;
	if (!again)
		this_pcpu->kprobe_status = KPROBE_HIT_SS;
	if (unlikely(!p->slot)) {
		p->simulate(p, regs);
		kprobe_done(p, regs);
		return;
	}
	kprobe_run_slot(p, regs);
}

static __attribute__((noinline)) void reenter_kprobe(struct kprobe *p, struct pt_regs *regs)
{
	kprobe_reentered(p);
	setup_singlestep(p, regs, 1);
}

/* Behind a copy: as far behind the probed instruction. */
static inline void resume_singlestep(struct kprobe *p, struct pt_regs *regs)
{
	kprobe_restore_state(regs);
	trap_set_ip(regs, trap_ip(regs) - p->slot + p->addr);
}

_Bool kprobe_trap(struct pt_regs *regs)
{
	struct kprobe *p;

	IDLE_SITE();
	if (unlikely(trap_from_user(regs)))
		return 0;
	p = get_kprobe(trap_ip(regs));
	if (p) {
		if (unlikely(kprobe_running())) {
			reenter_kprobe(p, regs);
			return 1;
		}
		this_pcpu->current_kprobe = p;
		this_pcpu->kprobe_status = KPROBE_HIT_ACTIVE;
		if (!p->pre_handler || !p->pre_handler(p, regs))
			setup_singlestep(p, regs, 0);
		else
			this_pcpu->current_kprobe = 0;
		return 1;
	}
	p = kprobe_running();
	if (!p || !kprobe_is_stepped() || regs->ip <= p->slot || regs->ip >= p->slot + SLOT_SIZE)
		return 0;
	resume_singlestep(p, regs);
	kprobe_done(p, regs);
	return 1;
}
#endif
