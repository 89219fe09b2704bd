/*
 * kprobes: what runs when one is hit, through ftrace or through a breakpoint.
 *
 * get_kprobe() and kprobe_ftrace_handler() stand for the kernel's functions of the same names (v5.17 to v7.2; riscv64 up to
 * v6.9), kprobe_trap() for kprobe_int3_handler() of x86-64 and the breakpoint handlers of arm64 and riscv64. The probed
 * instruction runs from a copy with a breakpoint behind it, as on x86-64 since v5.13, on arm64 since v5.11 and on riscv64 ever
 * since; or it is simulated. Differs: one kprobe at an address, so none that stands for several; no fault handlers; x86-64's
 * emulated instructions and its jump in place of the breakpoint are not built.
 */
#include "kprobe.h"
#include "hash.h"
#include "recursion.h"

#pragma clang section text = ".kprobe"

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

static inline struct kprobe *kprobe_running(void)
{
	return this_pcpu->current_kprobe;
}

/* Called by kprobes that are hit inside a kprobe's handler. */
static __attribute__((noinline)) void kprobes_inc_nmissed_count(struct kprobe *p)
{
	p->nmissed++;
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

/* The instruction has been done: on behind it, and back to the kprobe inside whose handler this one was hit. */
static void kprobe_post(struct kprobe *p, struct pt_regs *regs)
{
	if (p->resume)
		trap_set_ip(regs, p->resume);
	if (unlikely(this_pcpu->kprobe_status == KPROBE_REENTER)) {
		this_pcpu->current_kprobe = this_pcpu->prev_kprobe;
		this_pcpu->kprobe_status = this_pcpu->prev_kprobe_status;
		return;
	}
	this_pcpu->kprobe_status = KPROBE_HIT_SSDONE;
	if (p->post_handler)
		p->post_handler(p, regs, 0);
	this_pcpu->current_kprobe = 0;
}

/* Do the probed instruction: from its copy, when this exception is left, or now. */
static void setup_singlestep(struct kprobe *p, struct pt_regs *regs, unsigned long status)
{
	this_pcpu->kprobe_status = status;
	if (!p->slot) {
		p->simulate(p, regs);
		kprobe_post(p, regs);
		return;
	}
	this_pcpu->kprobe_saved_state = LAB_STATE(regs) & LAB_STATE_KEPT;
	LAB_STATE(regs) = lab_state_masked(LAB_STATE(regs));
	trap_set_ip(regs, p->slot);
}

/* Hit inside a handler of a kprobe: missed and counted, and the instruction is done all the same. */
static __attribute__((noinline)) void reenter_kprobe(struct kprobe *p, struct pt_regs *regs)
{
	if (this_pcpu->kprobe_status & (KPROBE_HIT_SS | KPROBE_REENTER))
		__builtin_trap();
	kprobes_inc_nmissed_count(p);
	this_pcpu->prev_kprobe = this_pcpu->current_kprobe;
	this_pcpu->prev_kprobe_status = this_pcpu->kprobe_status;
	this_pcpu->current_kprobe = p;
	setup_singlestep(p, regs, KPROBE_REENTER);
}

/* Has the copy just been executed? */
static inline _Bool kprobe_slot_trap(struct pt_regs *regs)
{
	struct kprobe *p = kprobe_running();

	if (!p || !(this_pcpu->kprobe_status & (KPROBE_HIT_SS | KPROBE_REENTER)) || p->slot_end != trap_ip(regs))
		return 0;
	LAB_STATE(regs) = (LAB_STATE(regs) & ~LAB_STATE_KEPT) | this_pcpu->kprobe_saved_state;
	kprobe_post(p, regs);
	return 1;
}

_Bool kprobe_trap(struct pt_regs *regs)
{
	struct kprobe *p;

	if (LAB_SLOT_FIRST && kprobe_slot_trap(regs))
		return 1;
	p = get_kprobe(trap_ip(regs));
	if (!p)
		return !LAB_SLOT_FIRST && kprobe_slot_trap(regs);
	if (unlikely(kprobe_running())) {
		reenter_kprobe(p, regs);
		return 1;
	}
	this_pcpu->current_kprobe = p;
	this_pcpu->kprobe_status = KPROBE_HIT_ACTIVE;
	if (!p->pre_handler || !p->pre_handler(p, regs))
		setup_singlestep(p, regs, KPROBE_HIT_SS);
	else
		this_pcpu->current_kprobe = 0;
	return 1;
}

#ifdef __riscv
/* AUIPC: its register gets the address of the instruction and its upper immediate. Register n is the nth word of a pt_regs. */
void kprobe_simulate_auipc(struct kprobe *p, struct pt_regs *regs)
{
	unsigned int rd = p->opcode >> 7 & 31;

	if (rd)
		((unsigned long *)regs)[rd] = p->addr + (long)(int)(p->opcode & 0xfffff000);
	trap_set_ip(regs, p->addr + 4);
}
#endif
