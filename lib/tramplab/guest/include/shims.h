/*
 * What lets a kretprobe's handlers run on an fprobe, unchanged: the kretprobe that they believe to be on, and of each ISA what a
 * pt_regs can be filled with at a function's return. No kernel has this.
 */
#ifndef LAB_SHIMS_H
#define LAB_SHIMS_H

#include "registers.h"
#include "kretprobe.h"
#include "fprobe_graph.h"
#include "ways.h"

/* rp: with the old handlers, and the address that a kretprobe would have. Behind it is what an instance is known to be its by. */
struct lab_shim {
	struct kretprobe rp;
#ifdef CONFIG_KRETPROBE_ON_RETHOOK
	struct rethook owner;
#else
	struct kretprobe_holder owner;
#endif
};

static inline void lab_shim_instance(struct kretprobe_instance *ri, struct lab_shim *shim, unsigned long ret_addr)
{
#ifdef CONFIG_KRETPROBE_ON_RETHOOK
	ri->node.rethook = &shim->owner;
	ri->node.ret_addr = ret_addr;
#else
	ri->rph = &shim->owner;
	ri->ret_addr = ret_addr;
#endif
}

/*
 * At the return: the words of a value, which the return trampoline saves; where the function came back to, and its stack; and all
 * that can be had beside. Where return_to_handler does not save the stack pointer, it is where its structure ends.
 */
#if defined(__x86_64__)
#define LAB_SHIM_STACK(f) ((f)->regs.sp)

static inline void lab_shim_value(struct ftrace_regs *f, struct pt_regs *regs)
{
}

static inline void lab_shim_all(struct ftrace_regs *f, struct pt_regs *regs)
{
	lab_fill_most(f, regs);
	regs->flags |= FLAGS_FIXED;
	regs->orig_ax = ~0UL;
	regs->cx = regs->si = regs->di = regs->r8 = regs->r9 = 0;
}
#elif defined(__aarch64__)
#define LAB_SHIM_STACK(f) ((unsigned long)((f) + 1))

static inline void lab_shim_value(struct ftrace_regs *f, struct pt_regs *regs)
{
	regs->regs[0] = FREGS_X(f, 0);
	regs->regs[1] = FREGS_X(f, 1);
}

static inline void lab_shim_all(struct ftrace_regs *f, struct pt_regs *regs)
{
	lab_fill_most(f, regs);
	regs->regs[8] = regs->regs[30] = 0;
}
#elif defined(__riscv)
#define LAB_SHIM_STACK(f) ((unsigned long)((f) + 1))

static inline void lab_shim_value(struct ftrace_regs *f, struct pt_regs *regs)
{
	regs->a0 = FREGS_ARG(f, 0);
	regs->a1 = FREGS_ARG(f, 1);
}

static inline void lab_shim_all(struct ftrace_regs *f, struct pt_regs *regs)
{
	lab_fill_most(f, regs);
	regs->a2 = regs->a3 = regs->a4 = regs->a5 = regs->a6 = regs->a7 = regs->t1 = regs->ra = 0;
}
#endif

#endif
