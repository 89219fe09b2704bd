/*
 * What a BPF trampoline calls around each program, and around the function if it calls that itself.
 *
 * Stand for the kernel's functions of the same names, in the shape of about v6.18 in every release: RCU's read side,
 * migration off (inlined), the run's context, and a per-CPU counter that keeps a program from running inside itself.
 * The counter is incremented without an atomic instruction. Run time statistics are off.
 */
#include "bpf.h"

#define NO_START_TIME 1

unsigned long __bpf_prog_enter_recur(struct bpf_prog *prog, struct bpf_tramp_run_ctx *run_ctx)
{
	struct task_struct *t;

	rcu_read_lock();
	migrate_disable();
	t = current;
	run_ctx->saved_run_ctx = t->bpf_ctx;
	t->bpf_ctx = run_ctx;
	if (unlikely((*lab_pcpu_int(prog->active) += 1) != 1)) {
		prog->misses += 1;
		return 0;
	}
	return NO_START_TIME;
}

void __bpf_prog_exit_recur(struct bpf_prog *prog, unsigned long start, struct bpf_tramp_run_ctx *run_ctx)
{
	current->bpf_ctx = run_ctx->saved_run_ctx;
	*lab_pcpu_int(prog->active) -= 1;
	migrate_enable();
	rcu_read_unlock();
}

void __bpf_tramp_enter(struct bpf_tramp_image *im)
{
	unsigned long ref;

	rcu_read_lock();
	ref = READ_ONCE(im->pcref);
	if (likely(!(ref & 1)))
		*lab_pcpu_int(ref) += 1;
	rcu_read_unlock();
}

void __bpf_tramp_exit(struct bpf_tramp_image *im)
{
	unsigned long ref;

	rcu_read_lock();
	ref = READ_ONCE(im->pcref);
	if (likely(!(ref & 1)))
		*lab_pcpu_int(ref) -= 1;
	rcu_read_unlock();
}
