/* What the child needs to know about the ISA it runs on; the assembly of the same name as the ISA has the rest. */
#ifndef CHILD_ARCH_H
#define CHILD_ARCH_H

#include "process.h"

/* Where the guest's base registers point, and the stack its calls run on. The assembly knows the order. */
struct base {
	u64 task, cpu, stack;
};

/* Call function(argument) on the guest's stack with the guest's base registers; returns what it returns. */
u64 enter(u64 function, u64 argument, const struct base *base);

#if defined(__x86_64__)
enum {
	SYS_MMAP = 9, SYS_MPROTECT = 10, SYS_SIGACTION = 13, SYS_SETITIMER = 38, SYS_SIGALTSTACK = 131, SYS_PRCTL = 157,
	SYS_ARCH_PRCTL = 158, SYS_SETAFFINITY = 203, SYS_CLOCK_GETTIME = 228,
};
enum { PC_IN_UCONTEXT = 168 };
#else
enum {
	SYS_SETITIMER = 103, SYS_CLOCK_GETTIME = 113, SYS_SETAFFINITY = 122, SYS_SIGALTSTACK = 132, SYS_SIGACTION = 134,
	SYS_PRCTL = 167, SYS_MMAP = 222, SYS_MPROTECT = 226, SYS_RISCV_FLUSH_ICACHE = 259,
};
#if defined(__aarch64__)
enum { PC_IN_UCONTEXT = 440 };
#else
enum { PC_IN_UCONTEXT = 176 };
#endif
#endif

/* struct sigaction as the system call takes it; only x86-64 has the restorer, to which a handler returns. */
struct sigaction {
	void (*handler)(int signal, void *info, void *ucontext);
	u64 flags;
#if defined(__x86_64__)
	void (*restorer)(void);
#endif
	u64 mask;
};
#if defined(__x86_64__)
enum { SA_ARCH = 0x04000000 /* SA_RESTORER, without which the kernel delivers nothing */ };
void restorer(void);
#define RESTORER .restorer = restorer
#else
enum { SA_ARCH = 0 };
#define RESTORER
#endif

/* Base registers that only a system call sets. */
static inline void arch_start(const struct base *base)
{
#if defined(__x86_64__)
	enum { ARCH_SET_GS = 0x1001 };

	sys(SYS_ARCH_PRCTL, ARCH_SET_GS, base->cpu, 0, 0, 0, 0);
#endif
}

/* Make the CPU fetch anew what was written to [start, end). */
static inline void arch_sync_text(u64 start, u64 end)
{
#if defined(__aarch64__)
	u64 sizes, data_line, text_line;

	asm volatile("mrs %0, ctr_el0" : "=r"(sizes));
	data_line = 4UL << (sizes >> 16 & 15);
	text_line = 4UL << (sizes & 15);
	for (u64 at = start & -data_line; at < end; at += data_line)
		asm volatile("dc cvau, %0" :: "r"(at) : "memory");
	asm volatile("dsb ish" ::: "memory");
	for (u64 at = start & -text_line; at < end; at += text_line)
		asm volatile("ic ivau, %0" :: "r"(at) : "memory");
	asm volatile("dsb ish; isb" ::: "memory");
#elif defined(__riscv)
	asm volatile("fence.i" ::: "memory");
	/* for the other harts, should this process move; kernels without the call have one hart's view anyway */
	sys(SYS_RISCV_FLUSH_ICACHE, start, end, 0, 0, 0, 0);
#endif
}

#endif
