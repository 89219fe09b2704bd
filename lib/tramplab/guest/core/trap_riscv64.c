/*
 * riscv64: EBREAK. lab_trap() stands for do_trap_break(), handle_break() and the two nestings of the vector's context for the
 * functions of those names (6.12 and 7.2; the nestings where kernels may be preempted, as 7.2). Differs: nothing from user space
 * and no debugger, because there is neither; no check of per-CPU arrays' bounds, because that is chosen where a kernel is built.
 */
#include "irq.h"
#include "trap.h"
#include "kprobe.h"

#ifdef __riscv
/* Does the task use the vector in the kernel, so that an exception must count and may have to save it? And how deep. */
#define VECTOR_IN_USE 0x100
#define VECTOR_NESTED (1 << 16)

#ifdef CONFIG_PREEMPTION
void riscv_v_context_nesting_start(struct pt_regs *regs)
{
	IDLE_SITE();
	if (likely(!(READ_ONCE(current->vector_flags) & VECTOR_IN_USE)))
		return;
	current->vector_flags += VECTOR_NESTED;
}

void riscv_v_context_nesting_end(struct pt_regs *regs)
{
	IDLE_SITE();
	if (unlikely(lab_irqs_on()))	/* nobody has turned them on again */
		__builtin_trap();
	if (likely(!(READ_ONCE(current->vector_flags) & VECTOR_IN_USE)))
		return;
	current->vector_flags -= VECTOR_NESTED;
}
#endif

/* Whether a breakpoint was hit in user space is asked by each who would handle it: there it would be a uprobe's. */
static inline _Bool probe_single_step(struct pt_regs *regs)
{
	return !trap_from_user(regs) && kprobe_step_trap(regs);
}

static inline _Bool probe_breakpoint(struct pt_regs *regs)
{
	return !trap_from_user(regs) && lab_claimed(regs);
}

__attribute__((noinline)) void handle_break(struct pt_regs *regs)
{
	IDLE_SITE();
	if (probe_single_step(regs))
		return;
	if (likely(probe_breakpoint(regs)))
		return;
	lab_trap_unclaimed();
}

/*
 * What could be the handler of a breakpoint in the pair of AUIPC and JALR that is being changed, whose address is here meanwhile: the
 * thread goes on behind both. No kernel has it. Behind all other text, so that nothing moves for it.
 */
#define INSN_SIZE 4
unsigned long lab_pair;

__attribute__((section(".text.stub"))) _Bool lab_trap_pair(struct pt_regs *regs)
{
	unsigned long pair = READ_ONCE(lab_pair), ip = trap_ip(regs);

	if (ip != pair && ip != pair + INSN_SIZE)
		return 0;
	trap_set_ip(regs, pair + 2 * INSN_SIZE);
	return 1;
}

void lab_trap(struct pt_regs *regs)
{
	_Bool lockdep;

	lab_trap_regs = regs;
	lab_trap_count++;
	if (unlikely(trap_from_user(regs)))
		lab_trap_unclaimed();
	lockdep = irqentry_nmi_enter(regs);
	handle_break(regs);
	irqentry_nmi_exit(regs, lockdep);
}
#endif
