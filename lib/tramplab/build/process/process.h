/* What each process without a libc has, whatever it does: how it makes system calls, and some of these. */
#ifndef PROCESS_H
#define PROCESS_H

typedef unsigned long u64;
typedef unsigned char u8;

/* The program's own; it does not return. */
void process(void);
/* A system call; the assembly of the same name as the ISA has it. */
long sys(long number, long a, long b, long c, long d, long e, long f);

#if defined(__x86_64__)
enum { SYS_READ = 0, SYS_WRITE = 1, SYS_IOCTL = 16, SYS_EXIT_GROUP = 231, SYS_PERF_EVENT_OPEN = 298 };
#else
enum { SYS_IOCTL = 29, SYS_READ = 63, SYS_WRITE = 64, SYS_EXIT_GROUP = 94, SYS_PERF_EVENT_OPEN = 241 };
#endif

#endif
