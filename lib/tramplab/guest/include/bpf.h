/*
 * What a BPF trampoline works with: programs, the context a program runs in, the image that is being executed, and the
 * stand-ins for the locks around a program. Names and meanings follow the kernel's; the code is the lab's.
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

/* pcref: offset of this CPU's share of the reference count; the lowest bit set would mean that it is being freed. */
struct bpf_tramp_image {
	unsigned long pcref;
};

unsigned long __bpf_prog_enter_recur(struct bpf_prog *prog, struct bpf_tramp_run_ctx *run_ctx);
void __bpf_prog_exit_recur(struct bpf_prog *prog, unsigned long start, struct bpf_tramp_run_ctx *run_ctx);
void __bpf_tramp_enter(struct bpf_tramp_image *im);
void __bpf_tramp_exit(struct bpf_tramp_image *im);

/* A preemptible kernel: the read side is counted in the task. */
static inline void rcu_read_lock(void)
{
	current->rcu_read_lock_nesting += 1;
	barrier();
}

static inline void rcu_read_unlock(void)
{
	barrier();
	current->rcu_read_lock_nesting -= 1;
}

static inline void migrate_disable(void)
{
	struct task_struct *t = current;

	if (t->migration_disabled) {
		t->migration_disabled += 1;
		return;
	}
	preempt_disable_notrace();
	this_pcpu->nr_pinned += 1;
	t->migration_disabled = 1;
	preempt_enable_notrace();
}

static inline void migrate_enable(void)
{
	struct task_struct *t = current;

	if (t->migration_disabled > 1) {
		t->migration_disabled -= 1;
		return;
	}
	preempt_disable_notrace();
	barrier();
	t->migration_disabled = 0;
	this_pcpu->nr_pinned -= 1;
	preempt_enable_notrace();
}

#endif
