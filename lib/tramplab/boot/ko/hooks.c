/*
 * A kernel module that attaches what only kernel code can: ops with flags of one's choice, direct calls, fprobes, kprobes and
 * kretprobes, each with a handler that counts. It is compiled for one image, whose structs' layouts and functions are in layout.h
 * (boot/module.py), so it needs none of its headers. /sys/module/tramplab/parameters/command takes "WHAT INDEX ADDRESS FLAGS",
 * numbers hexadecimal:
 *
 *   o  register ops INDEX on the patch site at ADDRESS, with these flags        O  unregister it
 *   c  the same, with a callback that calls int_sqrt()
 *   d  a direct call on it                                                      D
 *   f  an fprobe on the function at ADDRESS                                     F
 *      FLAGS: ENTRY, a handler at the entry; RETURN, one at the return; CALLS, one at the entry that calls int_sqrt(); DECLINES,
 *      one at the entry that wants no return; SEGMENTS, one at the return that looks at the code segment; PLACES, one at the return
 *      that looks whether the function is that at ADDRESS; from DATA_SHIFT on, the bytes of a call's data
 *   k  a kprobe; FLAGS: the offset in the function                              K
 *   s  the same, whose handler takes a stack trace                              K
 *   r  a kretprobe                                                              R
 *   n  ops INDEX on gcd()'s site at ADDRESS, with a callback that calls lcm(), which calls gcd()
 *   x  call int_sqrt()
 *   z  the same, when FLAGS is what the bytes are below on the stack
 *   y  call lcm(), and have it called as often again, each in the one before: FLAGS times
 *
 * It says how often handlers were called since the last registration, how many calls all fprobes say that they missed, and at how
 * many returns the code segment was not 0 or the function another one; then the first stack trace that was taken since, a function
 * in a line.
 */
#include "loaded.h"
#include "ops.h"
#include "kprobes.h"
#include "fprobes.h"

enum { ENOSYS = 38 };

int sprintf(char *to, const char *format, ...);

__attribute__((noinline)) static void leave(char byte)
{
	volatile char room[1024];

	for (unsigned int i = 0; i < sizeof(room); i++)
		room[i] = byte;
}

static u64 number(const char **at)
{
	u64 n = 0;

	while (**at == ' ')
		++*at;
	for (;; ++*at) {
		char c = **at;

		if (c >= '0' && c <= '9')
			n = n << 4 | (c - '0');
		else if (c >= 'a' && c <= 'f')
			n = n << 4 | (c - 'a' + 10);
		else
			return n;
	}
}

/* Longer than 40 lines because it has a case for each letter. */
static int command(const char *text, const struct kernel_param *param)
{
	char what = *text++;
	u64 i = number(&text), address = number(&text), flags = number(&text);

	if (i >= MAX)
		return -EINVAL;
	if (what >= 'a' && what < 't')
		called = odd = stacked = 0;
	switch (what) {
	case 'o':
		return ops_add(i, address, flags, callback);
	case 'c':
		return ops_add(i, address, flags, calling_callback);
	case 'n':
		return ops_add(i, address, flags, nesting_callback);
	case 'O':
		return ops_remove(i);
#ifdef REGISTER_DIRECT
	case 'd':
		return direct_add(i, address);
	case 'D':
		return direct_remove(i);
#endif
#ifdef FPROBE_SIZE
	case 'f':
		return fprobe_add(i, address, flags);
	case 'F':
		return unregister_fprobe(fprobes[i]);
#endif
#ifdef KPROBE_SIZE
	case 'k':
		return kprobe_add(i, address, flags, kprobe_handler);
	case 's':
		return kprobe_add(i, address, flags, stack_handler);
	case 'K':
		return kprobe_remove(i);
#endif
#ifdef KRETPROBE_SIZE
	case 'r':
		return kretprobe_add(i, address);
	case 'R':
		return kretprobe_remove(i);
#endif
	case 'x':
		int_sqrt(i);
		return 0;
	case 'z':
		leave(flags);
		int_sqrt(i);
		return 0;
	case 'y':
		nested = flags;
		lcm(4, 6);
		return 0;
	}
	return -ENOSYS;
}

static int told(char *to, const struct kernel_param *param)
{
	int used = sprintf(to, "called %lx missed %lx odd %lx\n", called, missed(), odd);

	for (unsigned int i = 0; i < stacked; i++)
		used += sprintf(to + used, "%pS\n", (void *)stack[i]);
	return used;
}

/* struct kernel_param_ops, and struct kernel_param, whose section is an array of them. */
static const struct {
	unsigned int flags;
	int (*set)(const char *text, const struct kernel_param *param);
	int (*get)(char *to, const struct kernel_param *param);
	void (*free)(void *arg);
} command_ops = { .set = command, .get = told };
static const char command_name[] = "command";
extern char __this_module[];
static const struct {
	const char *name;
	void *mod;
	const void *ops;
	unsigned short perm;
	signed char level;
	unsigned char flags;
	void *arg;
} command_param __attribute__((section("__param"), used, aligned(8))) = {
	command_name, __this_module, &command_ops, 0600, -1, 0, 0,
};

int start(void);
int start(void)
{
	return 0;
}
