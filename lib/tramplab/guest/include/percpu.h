/*
 * Counters of this CPU, by their offset in struct lab_pcpu, and how each ISA changes one so that nobody comes in between: x86-64
 * by an instruction, arm64 by exclusive accesses, riscv64 with interrupts off. Stand for this_cpu_add() and
 * this_cpu_inc_return(); arm64's as on a CPU without LSE atomics.
 */
#ifndef LAB_PERCPU_H
#define LAB_PERCPU_H

#include "irq.h"

#if defined(__x86_64__)
static inline void this_cpu_add(unsigned long offset, int n)
{
	*lab_pcpu_int(offset) += n;
}

static inline int this_cpu_inc_return(unsigned long offset)
{
	int was = 1;

	asm volatile("xaddl %0, %%gs:(%1)" : "+r"(was) : "r"(offset) : "memory", "cc");
	return was + 1;
}
#else
#if defined(__aarch64__)
static inline int this_cpu_add_return(unsigned long offset, int n)
{
	int now;

	preempt_disable_notrace();
	now = __atomic_add_fetch(lab_pcpu_int(offset), n, __ATOMIC_RELAXED);
	preempt_enable_notrace();
	return now;
}
#elif defined(__riscv)
static inline int this_cpu_add_return(unsigned long offset, int n)
{
	unsigned long irqs = lab_irq_save();
	int now = *(volatile int *)lab_pcpu_int(offset) += n;

	lab_irq_restore(irqs);
	return now;
}
#endif

static inline void this_cpu_add(unsigned long offset, int n)
{
	this_cpu_add_return(offset, n);
}

static inline int this_cpu_inc_return(unsigned long offset)
{
	return this_cpu_add_return(offset, 1);
}
#endif

#endif
