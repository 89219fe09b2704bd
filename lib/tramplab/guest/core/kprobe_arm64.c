/*
 * arm64: what BRK leads to. kprobe_trap() stands for kprobe_brk_handler() and kprobe_step_trap() for kprobe_ss_brk_handler(),
 * which has a number of its own (6.12 and 7.2).
 */
#include "kprobe_step.h"

#ifdef __aarch64__
#include "kprobe_ss.h"

static inline void setup_singlestep(struct kprobe *p, struct pt_regs *regs)
{
	if (likely(p->slot)) {
		kprobe_run_slot(p, regs);
		return;
	}
	p->simulate(p, regs);
	post_kprobe_handler(p, regs);
}
#endif
