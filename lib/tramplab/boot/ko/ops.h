/* Ops with callbacks, and direct calls, where the image has them. */
#ifndef KO_OPS_H
#define KO_OPS_H

#include "kernel.h"

int register_ftrace_function(void *ops);
int unregister_ftrace_function(void *ops);
int ftrace_set_filter_ip(void *ops, u64 ip, int remove, int reset);

static char ops[MAX][OPS_SIZE] __attribute__((aligned(64)));

void callback(u64 ip, u64 parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	called++;
}

static void calling_callback(u64 ip, u64 parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	called++;
	int_sqrt(called);
}

static u64 nested;

static void nesting_callback(u64 ip, u64 parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	if (nested) {
		nested--;
		lcm(4, 6);
	}
}

static int ops_add(u64 i, u64 ip, u64 flags, void *func)
{
	int error;

	AT(ops[i], OPS_FUNC, void *) = func;
	AT(ops[i], OPS_FLAGS, u64) = flags ^ FLAGS_TURNED;
	error = ftrace_set_filter_ip(ops[i], ip, 0, 1);
	return error ? error : register_ftrace_function(ops[i]);
}

static int ops_remove(u64 i)
{
	int error = unregister_ftrace_function(ops[i]);

	if (!error)
		__builtin_memset(ops[i], 0, OPS_SIZE);
	return error;
}

#ifdef REGISTER_DIRECT
#ifdef DIRECT_BY_ADDRESS
static u64 direct[MAX]; /* patch sites */
int register_direct(u64 ip, void *target) asm(STRING(REGISTER_DIRECT));
int unregister_direct(u64 ip, void *target) asm(STRING(UNREGISTER_DIRECT));
#else
static char direct[MAX][OPS_SIZE] __attribute__((aligned(64)));
int register_direct(void *ops, void *target) asm(STRING(REGISTER_DIRECT));
#if UNREGISTER_TAKES == 3
int unregister_direct(void *ops, void *target, int free_filters) asm(STRING(UNREGISTER_DIRECT));
#else
int unregister_direct(void *ops, void *target) asm(STRING(UNREGISTER_DIRECT));
#endif
#endif
void trampoline(void);

/* Counts, in registers that no argument is in, and returns behind the site. */
asm(".pushsection .text\n.balign 16\n.globl trampoline\ntrampoline:\n"
#if defined(__x86_64__)
    "endbr64\n incq called(%rip)\n ret\n"
#elif defined(__aarch64__)
    "hint #34\n adrp x16, called\n ldr x17, [x16, :lo12:called]\n add x17, x17, #1\n str x17, [x16, :lo12:called]\n"
    "mov x16, x30\n mov x30, x9\n ret x16\n"
#else
    "lla t1, called\n ld t2, 0(t1)\n addi t2, t2, 1\n sd t2, 0(t1)\n jr t0\n"
#endif
    ".size trampoline, .-trampoline\n.type trampoline, STT_FUNC\n.popsection");

#ifdef DIRECT_BY_ADDRESS
static int direct_add(u64 i, u64 ip)
{
	direct[i] = ip;
	return register_direct(ip, trampoline);
}

static int direct_remove(u64 i)
{
	return unregister_direct(direct[i], trampoline);
}
#else
static int direct_add(u64 i, u64 ip)
{
	int error = ftrace_set_filter_ip(direct[i], ip, 0, 1);

	return error ? error : register_direct(direct[i], trampoline);
}

static int direct_remove(u64 i)
{
#if UNREGISTER_TAKES == 3
	int error = unregister_direct(direct[i], trampoline, 1);
#else
	int error = unregister_direct(direct[i], trampoline);
#endif
	if (!error)
		__builtin_memset(direct[i], 0, OPS_SIZE);
	return error;
}
#endif
#endif

#endif
