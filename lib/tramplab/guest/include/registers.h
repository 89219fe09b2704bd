/*
 * Code that is handed a structure of registers and draws a conclusion from it: what is the same on every ISA. What differs is in
 * each ISA's pt_regs.h. Names stand for the kernel's (v5.17 to v7.0); the code is the lab's.
 */
#ifndef LAB_REGISTERS_H
#define LAB_REGISTERS_H

#include "lab.h"

/* A kernel's stack, in bytes, which begins at a multiple of that; the lab's are as large. */
#define THREAD_SIZE 16384

/* Where a kernel callchain starts: not at all, as this is user space; from the registers; or with whoever asks, from above sp on. */
enum lab_start { LAB_NOWHERE, LAB_FROM_REGISTERS, LAB_FROM_HERE };
enum { LAB_START_IP, LAB_START_SP, LAB_START_FP };

/* The nth word above sp, if it is on the same stack; regs_get_kernel_stack_nth(), whose read may fault where this one must not. */
static inline unsigned long lab_stack_word(unsigned long sp, unsigned long n)
{
	unsigned long at = sp + n * sizeof(long);

	return (at ^ sp) < THREAD_SIZE ? *(unsigned long *)at : 0;
}

#include "pt_regs.h"

#endif
