/* Fprobes, where the image has them: handlers, and which of these a probe has. */
#ifndef KO_FPROBES_H
#define KO_FPROBES_H

#include "kernel.h"

enum { RETURN = 1, CALLS = 2, SEGMENTS = 4, ENTRY = 8, DECLINES = 16, PLACES = 32, DATA_SHIFT = 8 };
enum { FIRST_BYTES = 32 }; /* of a function, with its patch site */

#ifdef FPROBE_SIZE
static char fprobes[MAX][FPROBE_SIZE] __attribute__((aligned(64)));
static u64 fprobed[MAX]; /* the function of each */
int register_fprobe_ips(void *fp, u64 *addresses, int nr);
int unregister_fprobe(void *fp);

int fprobe_entry(struct fprobe *fp, u64 ip, u64 ret_ip, struct FPROBE_REGS *regs, void *data)
{
	called++;
	return 0;
}

static int calling_entry(struct fprobe *fp, u64 ip, u64 ret_ip, struct FPROBE_REGS *regs, void *data)
{
	called++;
	int_sqrt(called);
	return 0;
}

static int declining_entry(struct fprobe *fp, u64 ip, u64 ret_ip, struct FPROBE_REGS *regs, void *data)
{
	return 1;
}

void fprobe_exit(struct fprobe *fp, u64 ip, u64 ret_ip, struct FPROBE_REGS *regs, void *data)
{
	called++;
}

#ifdef REGS_CS
static void segment_exit(struct fprobe *fp, u64 ip, u64 ret_ip, struct FPROBE_REGS *regs, void *data)
{
	if (AT(regs, REGS_CS, unsigned short))
		odd++;
}
#else
#define segment_exit fprobe_exit
#endif

static void place_exit(struct fprobe *fp, u64 ip, u64 ret_ip, struct FPROBE_REGS *regs, void *data)
{
	called++;
	if (ip - fprobed[((char *)fp - fprobes[0]) / FPROBE_SIZE] >= FIRST_BYTES)
		odd++;
}

static int fprobe_add(u64 i, u64 address, u64 flags)
{
	__builtin_memset(fprobes[i], 0, FPROBE_SIZE);
	fprobed[i] = address;
	if (flags & (ENTRY | CALLS | DECLINES))
		AT(fprobes[i], FPROBE_ENTRY, void *) = flags & CALLS ? calling_entry : flags & DECLINES ? declining_entry : fprobe_entry;
	if (flags & (RETURN | SEGMENTS | PLACES))
		AT(fprobes[i], FPROBE_EXIT, void *) = flags & SEGMENTS ? segment_exit : flags & PLACES ? place_exit : fprobe_exit;
	AT(fprobes[i], FPROBE_DATA, u64) = flags >> DATA_SHIFT;
	return register_fprobe_ips(fprobes[i], &address, 1);
}
#endif

static u64 missed(void)
{
	u64 all = 0;

#ifdef FPROBE_SIZE
	for (int i = 0; i < MAX; i++)
		all += AT(fprobes[i], FPROBE_MISSED, u64);
#endif
	return all;
}

#endif
