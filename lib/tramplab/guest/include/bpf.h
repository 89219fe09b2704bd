/*
 * What a BPF trampoline works with: programs, the context a program runs in, and the image that is being executed. Names and
 * meanings follow the kernel's; the code is the lab's.
 */
#ifndef LAB_BPF_H
#define LAB_BPF_H

#include "lab.h"

/* active: offset of this CPU's counter of entries in struct lab_pcpu. misses: calls not run because it was active. */
struct bpf_prog {
	unsigned long active;
	unsigned long misses;
};

/* One program's run: the value its link was made with, and the run it interrupted. */
struct bpf_tramp_run_ctx {
	unsigned long bpf_cookie;
	struct bpf_tramp_run_ctx *saved_run_ctx;
};

/* The same of a link of kprobe_multi, of which a program is told where its function begins, and whether it returns now. */
struct bpf_kprobe_multi_run_ctx {
	_Bool is_return;
	void *data;
	void *link;
	unsigned long entry_ip;
};

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
