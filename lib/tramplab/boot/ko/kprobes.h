/* Kprobes and kretprobes, where the image has them. */
#ifndef KO_KPROBES_H
#define KO_KPROBES_H

#include "kernel.h"

enum { MAX_STACK = 32 };

unsigned int stack_trace_save(u64 *entries, unsigned int size, unsigned int skip);

static u64 stack[MAX_STACK];
static unsigned int stacked;

int kprobe_handler(struct kprobe *p, struct pt_regs *regs)
{
	called++;
	return 0;
}

int kretprobe_handler(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	called++;
	return 0;
}

#ifdef KPROBE_SIZE
static char kprobes[MAX][KPROBE_SIZE] __attribute__((aligned(64)));
static char has_kprobe[MAX]; /* to take away a probe that was refused ends badly */
int register_kprobe(void *p);
void unregister_kprobe(void *p);

static int stack_handler(struct kprobe *p, struct pt_regs *regs)
{
	if (!called++)
		stacked = stack_trace_save(stack, MAX_STACK, 0);
	return 0;
}

static int kprobe_add(u64 i, u64 address, u64 offset, void *handler)
{
	int error;

	__builtin_memset(kprobes[i], 0, KPROBE_SIZE);
	AT(kprobes[i], KPROBE_ADDR, u64) = address + offset;
	AT(kprobes[i], KPROBE_PRE_HANDLER, void *) = handler;
	error = register_kprobe(kprobes[i]);
	has_kprobe[i] = !error;
	return error;
}

static int kprobe_remove(u64 i)
{
	if (!has_kprobe[i])
		return -EINVAL;
	has_kprobe[i] = 0;
	unregister_kprobe(kprobes[i]);
	return 0;
}
#endif

#ifdef KRETPROBE_SIZE
static char kretprobes[MAX][KRETPROBE_SIZE] __attribute__((aligned(64)));
static char has_kretprobe[MAX];
int register_kretprobe(void *rp);
void unregister_kretprobe(void *rp);

static int kretprobe_add(u64 i, u64 address)
{
	int error;

	__builtin_memset(kretprobes[i], 0, KRETPROBE_SIZE);
	AT(kretprobes[i], KRETPROBE_KP + KPROBE_ADDR, u64) = address;
	AT(kretprobes[i], KRETPROBE_HANDLER, void *) = kretprobe_handler;
	error = register_kretprobe(kretprobes[i]);
	has_kretprobe[i] = !error;
	return error;
}

static int kretprobe_remove(u64 i)
{
	if (!has_kretprobe[i])
		return -EINVAL;
	has_kretprobe[i] = 0;
	unregister_kretprobe(kretprobes[i]);
	return 0;
}
#endif

#endif
