/*
 * fprobes: what runs at the entry of a function, as an ops' callback, and when it returns. Stand for the kernel's functions of the
 * same names, v6.5 to v6.13. Differs up to v6.4: handlers are given the caller's address, and the one at the entry has a say,
 * because the handlers are those of later releases.
 */
#include "fprobe.h"
#include "recursion.h"

#ifdef CONFIG_FPROBE_ON_RETHOOK
#ifdef CONFIG_FPROBE_UNGUARDED
#define GUARD() 1
#define UNGUARD(held) ((void)(held))
#else
#define GUARD() trace_recursion_enter(TRACE_FTRACE_START)
#define UNGUARD(held) trace_recursion_leave(held)
#endif

static inline lab_entry_regs *lab_entry_regs_of(struct ftrace_regs *fregs)
{
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_REGS
	return ftrace_get_regs(fregs);
#else
	return fregs;
#endif
}

static inline __attribute__((always_inline)) void lab_fprobe_enter(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
								struct ftrace_regs *fregs, _Bool whole)
{
	struct fprobe *fp = (struct fprobe *)op;	/* whose first member it is */
	struct rethook_node *node = 0;
	void *data = 0;
	int held, declined = 0;

	if (unlikely(fp->flags & FPROBE_FL_DISABLED))
		return;
	held = GUARD();
	if (unlikely(!held)) {
		fp->nmissed++;
		return;
	}
	if (fp->exit_handler) {
		struct fprobe_rethook_node *fpr;

		node = rethook_try_get(fp->rethook);
		if (unlikely(!node)) {
			fp->nmissed++;
			goto out;
		}
		fpr = (struct fprobe_rethook_node *)node;
		fpr->entry_ip = ip;
		fpr->entry_parent_ip = parent_ip;
		if (fp->entry_data_size)
			data = fpr->data;
	}
	if (fp->entry_handler)
		declined = fp->entry_handler(fp, ip, parent_ip,
					     whole ? lab_entry_regs_of(fregs) : (lab_entry_regs *)fregs, data);
	if (node) {
		if (declined)
			rethook_recycle(node);
		else
			rethook_hook(node, fregs);
	}
out:
	UNGUARD(held);
}

void fprobe_handler(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	lab_fprobe_enter(ip, parent_ip, op, fregs, 1);
}

/* No kernel's on return hooks: handlers are given what a trampoline for arguments saves. */
void lab_fprobe_args_handler(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	lab_fprobe_enter(ip, parent_ip, op, fregs, 0);
}

void fprobe_exit_handler(struct rethook_node *node, void *data, unsigned long ret_addr, struct pt_regs *regs)
{
	struct fprobe_rethook_node *fpr = (struct fprobe_rethook_node *)node;
	struct fprobe *fp = data;
	int held;

	if (unlikely(!fp || fp->flags & FPROBE_FL_DISABLED))
		return;
	held = GUARD();
	if (unlikely(!held)) {
		fp->nmissed++;
		return;
	}
	fp->exit_handler(fp, fpr->entry_ip, ret_addr, regs, fp->entry_data_size ? fpr->data : 0);
	UNGUARD(held);
}
#endif
