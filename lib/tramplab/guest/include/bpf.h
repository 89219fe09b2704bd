/*
 * What a BPF trampoline works with: programs, the context a program runs in, and the image that is being executed. Names and
 * meanings follow the kernel's; the code is the lab's.
 */
#ifndef LAB_BPF_H
#define LAB_BPF_H

#include "lab.h"

/*
 * active: offset of this CPU's counter of entries in struct lab_pcpu. misses: calls not run because it was active. bpf_func: its code,
 * which is given what it was made of besides its context; here that is what a program counts in.
 */
struct bpf_prog {
	unsigned int type, expected_attach_type;
	unsigned long active;
	unsigned long misses;
	unsigned long (*bpf_func)(void *ctx, void *insnsi);
	struct lab_private *insnsi;
};
#define BPF_PROG_TYPE_KPROBE 2
#define BPF_TRACE_KPROBE_SESSION 56

/* Where no trampoline calls a program's code by its address. Statistics of run time are off. */
static inline unsigned long bpf_prog_run(struct bpf_prog *prog, void *ctx)
{
	KEY_IS_OFF();
	return prog->bpf_func(ctx, &prog->insnsi);
}

/* One program's run: the value its link was made with, and the run it interrupted. */
struct bpf_tramp_run_ctx {
	unsigned long bpf_cookie;
	struct bpf_tramp_run_ctx *saved_run_ctx;
};

/* The same of a trace event's: bpf_trace_run_ctx. */
struct bpf_trace_run_ctx {
	unsigned long bpf_cookie;
	_Bool is_uprobe;
};

static inline struct bpf_tramp_run_ctx *bpf_set_run_ctx(void *run_ctx)
{
	struct task_struct *t = current;
	struct bpf_tramp_run_ctx *old = t->bpf_ctx;

	t->bpf_ctx = run_ctx;
	return old;
}

/*
 * pcref: offset of this CPU's share of the reference count; one of the lowest bits set would mean that it is being freed. users:
 * their number then.
 */
struct bpf_tramp_image {
	unsigned long pcref;
	long users;
	_Bool released;
};
#define LAB_PCREF_ENDS 3

unsigned long __bpf_prog_enter_recur(struct bpf_prog *prog, struct bpf_tramp_run_ctx *run_ctx);
void __bpf_prog_exit_recur(struct bpf_prog *prog, unsigned long start, struct bpf_tramp_run_ctx *run_ctx);
void __bpf_tramp_enter(struct bpf_tramp_image *im);
void __bpf_tramp_exit(struct bpf_tramp_image *im);

#endif
