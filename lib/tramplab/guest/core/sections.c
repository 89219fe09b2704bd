/*
 * RCU's read side and staying on a CPU, where they are functions. Stand for the kernel's of the same names; nobody waits for the
 * end of a reader, so none is asked to report it.
 */
#include "sections.h"

struct lab_pcpu *lab_percpu[LAB_NR_CPUS] = { &lab_boot_pcpu };

#ifdef __x86_64__
unsigned long __stack_chk_guard = 0x5eed0fcafef00d00;
#endif

void __stack_chk_fail(void)
{
	__builtin_trap();
}

void preempt_schedule_notrace(void)
{
	current->flags = 0;
	current->no_resched = 1;
}

void lab_set_cpus_allowed(struct task_struct *t, struct lab_affinity *wanted)
{
	t->cpus_ptr = wanted ? wanted->mask : &t->cpus_mask;
}

#ifdef CONFIG_PREEMPT_RCU
static __attribute__((noinline, cold)) void rcu_read_unlock_special(struct task_struct *t)
{
	t->rcu_read_unlock_special = 0;
}

void __rcu_read_lock(void)
{
	IDLE_SITE();
	current->rcu_read_lock_nesting += 1;
	barrier();
}

void __rcu_read_unlock(void)
{
	struct task_struct *t = current;

	IDLE_SITE();
	barrier();
	if (--t->rcu_read_lock_nesting == 0) {
		barrier();
		if (unlikely(READ_ONCE(t->rcu_read_unlock_special)))
			rcu_read_unlock_special(t);
	}
}
#endif

#ifndef CONFIG_BPF_INLINE_GUARDS
void migrate_disable(void)
{
	IDLE_SITE();
	lab_migrate_disable();
}

void migrate_enable(void)
{
	struct task_struct *t = current;
	struct lab_affinity wanted = { .mask = &t->cpus_mask, .flags = LAB_AFFINITY_MIGRATE_ENABLE };

	IDLE_SITE();
	asm volatile("" : : "r"(&wanted) : "memory"); /* filled before it is known to be needed, as kernels do */
	lab_migrate_enable(t, &wanted);
}
#endif
