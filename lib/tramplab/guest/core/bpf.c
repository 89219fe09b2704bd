/*
 * What a BPF trampoline calls around each program, and around the function if it calls that itself.
 *
 * Stand for the kernel's functions of the same names, v6.1 to v7.2: RCU's read side, migration off, the run's context, and a
 * counter of this CPU that keeps a program from running inside itself. Up to v6.17 migration is turned off by a function, from
 * v6.18 inline, and only where a reader can be preempted. The counter is one for all contexts, but on arm64 from v7.0 one for
 * each, in the bytes of a word, which needs no atomic instruction. Run time statistics are off, behind a key. Differs: a
 * counter has 64 bits, and in images 32, because the guest's words for each CPU are all alike; the call that would take statistics,
 * which v6.17 inlined, goes with v6.18 here, because it is off in both.
 */
#include "bpf.h"
#include "percpu.h"
#include "sections.h"

#define NO_START_TIME 1

#ifdef CONFIG_BPF_INLINE_GUARDS
static inline void lab_guard(void)
{
#ifdef CONFIG_PREEMPT_RCU
	lab_migrate_disable();
#endif
	rcu_read_lock();
}

static inline void lab_unguard(void)
{
	rcu_read_unlock();
#ifdef CONFIG_PREEMPT_RCU
	lab_migrate_enable(current, 0);
#endif
}

static inline void update_prog_stats(void)
{
	KEY_IS_OFF();
}
#else
static inline void lab_guard(void)
{
	rcu_read_lock();
	migrate_disable();
}

static inline void lab_unguard(void)
{
	migrate_enable();
	rcu_read_unlock();
}

static __attribute__((noinline)) void update_prog_stats(void)
{
	KEY_IS_OFF();
}
#endif

#ifdef CONFIG_BPF_CONTEXT_COUNTER
#define BITS_PER_BYTE 8

/* Is this context the only one on this CPU in which the program runs? */
static inline _Bool lab_prog_get(struct bpf_prog *prog)
{
	unsigned char level = lab_context_level();
	unsigned int all;

	preempt_disable_notrace();
	((unsigned char *)lab_pcpu_int(prog->active))[level] += 1;
	all = *(volatile unsigned int *)lab_pcpu_int(prog->active);
	preempt_enable_notrace();
	return all == 1U << BITS_PER_BYTE * level;
}

static inline void lab_prog_put(struct bpf_prog *prog)
{
	unsigned char level = lab_context_level();

	preempt_disable_notrace();
	((unsigned char *)lab_pcpu_int(prog->active))[level] -= 1;
	preempt_enable_notrace();
}
#else
static inline _Bool lab_prog_get(struct bpf_prog *prog)
{
	return this_cpu_inc_return(prog->active) == 1;
}

static inline void lab_prog_put(struct bpf_prog *prog)
{
	this_cpu_add(prog->active, -1);
}
#endif

unsigned long __bpf_prog_enter_recur(struct bpf_prog *prog, struct bpf_tramp_run_ctx *run_ctx)
{
	struct task_struct *t;

	lab_guard();
	t = current;
	run_ctx->saved_run_ctx = t->bpf_ctx;
	t->bpf_ctx = run_ctx;
	if (unlikely(!lab_prog_get(prog))) {
		prog->misses += 1;
		return 0;
	}
	KEY_IS_OFF();
	return NO_START_TIME;
}

void __bpf_prog_exit_recur(struct bpf_prog *prog, unsigned long start, struct bpf_tramp_run_ctx *run_ctx)
{
	current->bpf_ctx = run_ctx->saved_run_ctx;
	update_prog_stats();
	lab_prog_put(prog);
	lab_unguard();
}

/* The last user of an image that is being freed has left. */
static __attribute__((noinline, cold)) void lab_image_release(struct bpf_tramp_image *im)
{
	im->released = 1;
}

/* An image's users are counted on each CPU, and when it is being freed in one place, atomically. */
void __bpf_tramp_enter(struct bpf_tramp_image *im)
{
	unsigned long ref;

	rcu_read_lock();
	ref = READ_ONCE(im->pcref);
	if (likely(!(ref & LAB_PCREF_ENDS)))
		this_cpu_add(ref, 1);
	else
		__atomic_add_fetch(&im->users, 1, __ATOMIC_RELAXED);
	rcu_read_unlock();
}

void __bpf_tramp_exit(struct bpf_tramp_image *im)
{
	unsigned long ref;

	rcu_read_lock();
	ref = READ_ONCE(im->pcref);
	if (likely(!(ref & LAB_PCREF_ENDS)))
		this_cpu_add(ref, -1);
	else if (__atomic_sub_fetch(&im->users, 1, __ATOMIC_ACQ_REL) == 0)
		lab_image_release(im);
	rcu_read_unlock();
}
