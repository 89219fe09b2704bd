/*
 * Where the breakpoint behind a copy has a number or a handler of its own, on arm64 and riscv64: kprobe_trap() is asked about the
 * probe's, kprobe_step_trap() about that one. post_kprobe_handler() stands for the function of that name (6.12 and 7.2). How the
 * copied instruction is come to, setup_singlestep(), is each ISA's own, in the file that takes this one in behind kprobe_step.h.
 */
#pragma clang section text = ".kprobe"

static inline void setup_singlestep(struct kprobe *p, struct pt_regs *regs);

__attribute__((noinline)) void post_kprobe_handler(struct kprobe *p, struct pt_regs *regs)
{
	if (p->resume)
		trap_set_ip(regs, p->resume);
	kprobe_done(p, regs);
	barrier();
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

	if (!p || !kprobe_is_stepped() || p->slot_end != trap_ip(regs))
		return 0;
	kprobe_restore_state(regs);
	post_kprobe_handler(p, regs);
	return 1;
}
