/*
 * RCU's read side, and staying on a CPU. Names and meanings follow the kernel's; the code is the lab's.
 *
 * Where a reader may be preempted, it is counted in the task, by calls; else a section without preemption is all that it is,
 * and where nothing is preempted anywhere, nothing.
 */
#ifndef LAB_SECTIONS_H
#define LAB_SECTIONS_H

#include "lab.h"

void __stack_chk_fail(void);
void __rcu_read_lock(void);
void __rcu_read_unlock(void);

/* What is asked for when a task is to run on other CPUs. */
struct lab_affinity {
	unsigned long *mask, *user_mask;
	unsigned int flags;
};
#define LAB_AFFINITY_MIGRATE_ENABLE 4

/*
 * Put a task where it may run; called when somebody has narrowed that while the task could not move, and nobody does.
 * wanted: 0 for all that it may.
 */
void lab_set_cpus_allowed(struct task_struct *t, struct lab_affinity *wanted);

static inline void rcu_read_lock(void)
{
#ifdef CONFIG_PREEMPT_RCU
	__rcu_read_lock();
#else
	preempt_disable_notrace();
#endif
}

static inline void rcu_read_unlock(void)
{
#ifdef CONFIG_PREEMPT_RCU
	__rcu_read_unlock();
#else
	preempt_enable_notrace();
#endif
}

static inline void lab_migrate_disable(void)
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

static inline void lab_migrate_enable(struct task_struct *t, struct lab_affinity *wanted)
{
	if (t->migration_disabled > 1) {
		t->migration_disabled -= 1;
		return;
	}
	preempt_disable_notrace();
	if (unlikely(t->cpus_ptr != &t->cpus_mask))
		lab_set_cpus_allowed(t, wanted);
	barrier();
	t->migration_disabled = 0;
	this_pcpu->nr_pinned -= 1;
	preempt_enable_notrace();
}

/* Functions up to v6.17, and traced like others; from v6.18 inline, and a reader that cannot be preempted needs none. */
void migrate_disable(void);
void migrate_enable(void);

#endif
