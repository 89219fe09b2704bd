/*
 * A kprobe: handlers at one instruction. It gets there through ftrace, where the instruction is a patch site and the ISA serves
 * kprobes so, or through a breakpoint in its place. Names and meanings follow the kernel's (v5.17 to v7.2); the code is the lab's.
 */
#ifndef LAB_KPROBE_H
#define LAB_KPROBE_H

#include "lab.h"
#include "trap.h"

struct kprobe;

/* Not zero: the handler has decided where the CPU goes on. */
typedef int (*kprobe_pre_handler_t)(struct kprobe *p, struct pt_regs *regs);
typedef void (*kprobe_post_handler_t)(struct kprobe *p, struct pt_regs *regs, unsigned long flags);

/*
 * opcode: the probed instruction. slot: a copy of it with a breakpoint behind, at slot_end, and resume, where the CPU goes on when
 * that was hit; or, with slot 0, simulate: does what the instruction does, and moves on. list: of one that stands for several at its
 * address the newest of them; of those, the next older one.
 */
struct kprobe {
	struct kprobe *next;
	unsigned long addr;
	unsigned long nmissed;
	kprobe_pre_handler_t pre_handler;
	kprobe_post_handler_t post_handler;
	unsigned int flags;
	unsigned int opcode;
	unsigned long slot, slot_end, resume;
	void (*simulate)(struct kprobe *p, struct pt_regs *regs);
	struct lab_private *private;
	struct kprobe *list;
};
#define KPROBE_FLAG_GONE 1
#define KPROBE_FLAG_DISABLED 2
#define KPROBE_FLAG_OPTIMIZED 4
#define KPROBE_FLAG_FTRACE 8

/* Where all are found by address. */
#define KPROBE_HASH_BITS 6
extern struct kprobe *kprobe_table[1 << KPROBE_HASH_BITS];

/* How far this CPU is with its kprobe. */
#define KPROBE_HIT_ACTIVE 1
#define KPROBE_HIT_SS 2
#define KPROBE_REENTER 4
#define KPROBE_HIT_SSDONE 8

struct kprobe *get_kprobe(unsigned long addr);
int aggr_pre_handler(struct kprobe *p, struct pt_regs *regs);
void kprobe_ftrace_handler(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs);
void kprobes_inc_nmissed_count(struct kprobe *p);
_Bool kprobe_trap(struct pt_regs *regs);
_Bool kprobe_step_trap(struct pt_regs *regs);

/*
 * While the copy runs interrupts are off, in the state that the exception brings back.
 */
#if defined(__x86_64__)
#define LAB_STATE(regs) ((regs)->flags)
#define LAB_STATE_KEPT (1UL << 9)
static inline unsigned long lab_state_masked(unsigned long state) { return state & ~LAB_STATE_KEPT; }
#elif defined(__aarch64__)
#define LAB_STATE(regs) ((regs)->pstate)
#define LAB_STATE_KEPT (0xfUL << 6)
static inline unsigned long lab_state_masked(unsigned long state) { return state | LAB_STATE_KEPT; }
#elif defined(__riscv)
#define LAB_STATE(regs) ((regs)->status)
#define LAB_STATE_KEPT (1UL << 5)
static inline unsigned long lab_state_masked(unsigned long state) { return state & ~LAB_STATE_KEPT; }
#endif

#endif
