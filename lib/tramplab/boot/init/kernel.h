/* System calls that the process makes, and what it has open. */
#ifndef INIT_KERNEL_H
#define INIT_KERNEL_H

#include "process.h"

#if defined(__x86_64__)
enum {
	SYS_CLOSE = 3, SYS_NANOSLEEP = 35, SYS_CLONE = 56, SYS_MOUNT = 165, SYS_REBOOT = 169, SYS_SETAFFINITY = 203, SYS_OPENAT = 257,
	SYS_MKDIRAT = 258, SYS_UNLINKAT = 263, SYS_FINIT_MODULE = 313, SYS_BPF = 321,
};
#else
enum {
	SYS_MKDIRAT = 34, SYS_UNLINKAT = 35, SYS_MOUNT = 40, SYS_OPENAT = 56, SYS_CLOSE = 57, SYS_NANOSLEEP = 101, SYS_SETAFFINITY = 122,
	SYS_REBOOT = 142, SYS_CLONE = 220, SYS_FINIT_MODULE = 273, SYS_BPF = 280,
};
#endif
enum { MAX_FDS = 256, ENOENT = 2, EBUSY = 16, EINVAL = 22 };

static long fds[MAX_FDS], nr_fds;

static long call(long nr, long a, long b, long c, long d, long e)
{
	return sys(nr, a, b, c, d, e, 0);
}

static void sleep_for(u64 milliseconds)
{
	u64 time[2] = { milliseconds / 1000, milliseconds % 1000 * 1000000 };

	call(SYS_NANOSLEEP, (long)time, 0, 0, 0, 0);
}

/* Have it closed with the others. */
static long kept(long fd)
{
	if (fd >= 0 && nr_fds < MAX_FDS)
		fds[nr_fds++] = fd;
	return fd;
}

#endif
