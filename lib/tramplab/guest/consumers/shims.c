/*
 * Shims: an fprobe's handlers that call a kretprobe's, unchanged, with what those take. They differ in how much of a pt_regs they fill,
 * which is as much as its user reads: `value` what was returned, `where` also ip and sp, `all` whatever can be had. No kernel has them.
 * Differs from a kretprobe: an instance is on the stack and has no data, and nothing is kept from entry to return, because an
 * fprobe has a place for that. Behind all else.
 */
#include "lab.h"

#if defined(CONFIG_FUNCTION_GRAPH_TRACER) && defined(CONFIG_KRETPROBES)
#include "shims.h"

#pragma clang section text = ".far.shims"

/* The old handler runs as a kprobe's does, so that it can ask which one, and so that kprobes inside it are found to be nested. */
static inline __attribute__((always_inline)) int lab_shim_call(kretprobe_handler_t handler, struct lab_shim *shim,
							       unsigned long ret_ip, struct pt_regs *regs)
{
	struct kprobe *before = this_pcpu->current_kprobe;
	struct kretprobe_instance ri;
	int answer;

	lab_shim_instance(&ri, shim, ret_ip);
	this_pcpu->current_kprobe = &shim->rp.kp;
	answer = handler(&ri, regs);
	this_pcpu->current_kprobe = before;
	return answer;
}

/* Where a pt_regs is embedded it is that one which is filled, else one on the stack. */
#ifdef LAB_FILLS_COPY
#define ROOM(fregs) struct pt_regs room; struct pt_regs *regs = &room
#else
#define ROOM(fregs) struct pt_regs *regs = &(fregs)->regs
#endif

#define SHIM(name, entry, exit) \
int lab_shim_entry_##name(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, lab_entry_regs *fregs, void *entry_data) \
{ \
	struct lab_shim *shim = (struct lab_shim *)lab_fprobe_private(fp)->go_to; \
	ROOM(fregs); \
	entry; \
	return lab_shim_call(shim->rp.entry_handler, shim, ret_ip, regs); \
} \
void lab_shim_exit_##name(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, lab_exit_regs *fregs, void *entry_data) \
{ \
	struct lab_shim *shim = (struct lab_shim *)lab_fprobe_private(fp)->go_to; \
	ROOM(fregs); \
	exit; \
	lab_shim_call(shim->rp.handler, shim, ret_ip, regs); \
}

#define WHERE LAB_IP(regs) = ret_ip; LAB_SP(regs) = LAB_SHIM_STACK(fregs)

/* At the entry, arguments, ip and sp are copied at once. */
SHIM(value, lab_partial(fregs, regs), lab_shim_value(fregs, regs))
SHIM(where, lab_partial(fregs, regs), lab_shim_value(fregs, regs); WHERE)
SHIM(all, lab_fill_most(fregs, regs), lab_shim_all(fregs, regs); WHERE)
#endif
