/*
 * Return hooks: a node for each call that is to be seen returning, with the return address that the hook took the place of.
 * Names and meanings follow the kernel's (v5.18 to v6.13 for fprobes); the code is the lab's.
 *
 * Where a node comes from: a list (up to v6.6), a ring for each CPU (v6.7 on), or, which no kernel does for return hooks, a
 * stack of the task's own.
 */
#ifndef LAB_RETHOOK_H
#define LAB_RETHOOK_H

#include "pool.h"
#include "returns.h"

struct rethook;

/* frame: by what calls of one frame are known, as where a function has left by a jump. */
struct rethook_node {
	struct freelist_node freelist;
	struct rethook_node *next;
	struct rethook *rethook;
	unsigned long ret_addr;
	unsigned long frame;
};

typedef void (*rethook_handler_t)(struct rethook_node *node, void *data, unsigned long ret_addr, struct pt_regs *regs);

/* size: of a node with what its owner keeps behind it. */
struct rethook {
	void *data;
	rethook_handler_t handler;
	unsigned long size;
	struct freelist_head list;
	struct objpool_head ring;
};

extern char arch_rethook_trampoline[];

struct rethook_node *rethook_try_get(struct rethook *rh);
void rethook_recycle(struct rethook_node *node);
void rethook_hook(struct rethook_node *node, struct ftrace_regs *fregs);
void rethook_hook_probed(struct rethook_node *node, struct pt_regs *regs, _Bool mcount);
unsigned long rethook_trampoline_handler(struct pt_regs *regs, unsigned long frame);

#if defined(__x86_64__)
static inline void rethook_prepare(struct rethook_node *node, struct ftrace_regs *f)
{
	unsigned long *stack = (unsigned long *)f->regs.sp;

	node->ret_addr = stack[0];
	node->frame = f->regs.sp;
	stack[0] = (unsigned long)arch_rethook_trampoline;
}
#elif defined(__aarch64__)
static inline void rethook_prepare(struct rethook_node *node, struct ftrace_regs *f)
{
	node->ret_addr = FREGS_LR(f);
	node->frame = FREGS_FP(f);
	FREGS_LR(f) = (unsigned long)arch_rethook_trampoline;
}
#elif defined(__riscv)
static inline void rethook_prepare(struct rethook_node *node, struct ftrace_regs *f)
{
	node->ret_addr = FREGS(f)->ra;
	node->frame = FREGS(f)->s0;
	FREGS(f)->ra = (unsigned long)arch_rethook_trampoline;
}
#endif

#endif
