/* Interrupts of this CPU, and its number. A process has none to turn off; one instruction stands for one. */
#ifndef LAB_IRQ_H
#define LAB_IRQ_H

#include "lab.h"

#if defined(__x86_64__)
#define X86_EFLAGS_IF (1UL << 9)
#ifdef CONFIG_LAB_USER
#define LAB_IRQS_OFF "cld"
#define LAB_IRQS_ON "cld"
#else
#define LAB_IRQS_OFF "cli"
#define LAB_IRQS_ON "sti"
#endif
/* A kernel that can run as Xen's guest (PARAVIRT_XXL) has each of them in the place of a call of five bytes, and a NOP in the rest. */
#define LAB_PARAVIRT "\n\tnopl (%%rax)"

static inline unsigned long lab_irq_save(void)
{
	unsigned long flags;

	asm volatile("pushfq\n\tpopq %0" LAB_PARAVIRT "\n\t" LAB_IRQS_OFF LAB_PARAVIRT : "=r"(flags) : : "memory");
	return flags;
}

static inline void lab_irq_restore(unsigned long flags)
{
	if (flags & X86_EFLAGS_IF)
		asm volatile(LAB_IRQS_ON LAB_PARAVIRT : : : "memory");
}

/* The number is in the task, which is in per-CPU data. */
#elif defined(__aarch64__)
#ifdef CONFIG_LAB_USER
#define LAB_DAIF "nzcv"
#define LAB_IRQS_OFF "nop"
#else
#define LAB_DAIF "daif"
#define LAB_IRQS_OFF "msr daifset, #3"
#endif
static inline unsigned long lab_irq_save(void)
{
	unsigned long flags;

	asm volatile("mrs %0, " LAB_DAIF "\n\t" LAB_IRQS_OFF : "=r"(flags) : : "memory");
	return flags;
}

static inline void lab_irq_restore(unsigned long flags)
{
	asm volatile("msr " LAB_DAIF ", %0" : : "r"(flags) : "memory");
}
#elif defined(__riscv)
#define SSTATUS_SIE 2
#ifdef CONFIG_LAB_USER
#define LAB_IRQS_OFF ".option push\n\t.option norvc\n\tli %0, %1\n\t.option pop"
#define LAB_IRQS_BACK ".option push\n\t.option norvc\n\tandi %0, %0, %1\n\t.option pop"
#else
#define LAB_IRQS_OFF "csrrci %0, sstatus, %1"
#define LAB_IRQS_BACK "csrs sstatus, %0"
#endif
static inline unsigned long lab_irq_save(void)
{
	unsigned long flags;

	asm volatile(LAB_IRQS_OFF : "=r"(flags) : "i"(SSTATUS_SIE) : "memory");
	return flags;
}

static inline void lab_irq_restore(unsigned long flags)
{
	flags &= SSTATUS_SIE;
	asm volatile(LAB_IRQS_BACK : "+r"(flags) : "i"(SSTATUS_SIE) : "memory");
}

static inline _Bool lab_irqs_on(void)
{
#ifdef CONFIG_LAB_USER
	return 0;
#else
	unsigned long status;

	asm volatile("csrr %0, sstatus" : "=r"(status) : : "memory");
	return status & SSTATUS_SIE;
#endif
}
#endif

static inline unsigned long lab_cpu(void)
{
	return current->cpu;
}

#endif
