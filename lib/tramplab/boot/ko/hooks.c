/*
 * A kernel module that attaches what only kernel code can: ops with flags of one's choice, direct calls, fprobes, kprobes and
 * kretprobes, each with a handler that counts. It is compiled for one image, whose structs' layouts and functions are in layout.h
 * (boot/module.py), so it needs none of its headers. /sys/module/tramplab/parameters/command takes "WHAT INDEX ADDRESS FLAGS", numbers
 * hexadecimal:
 *
 *   o  register ops INDEX on the patch site at ADDRESS, with these flags        O  unregister it
 *   c  the same, with a callback that calls int_sqrt()
 *   d  a direct call on it                                                      D
 *   f  an fprobe on the function at ADDRESS                                     F
 *      FLAGS: ENTRY, a handler at the entry; RETURN, one at the return; CALLS, one at the entry that calls int_sqrt(); DECLINES, one
 *      at the entry that wants no return; SEGMENTS, one at the return that looks at the code segment; PLACES, one at the return that
 *      looks whether the function is that at ADDRESS; from DATA_SHIFT on, the bytes of a call's data
 *   k  a kprobe; FLAGS: the offset in the function                              K
 *   s  the same, whose handler takes a stack trace                              K
 *   r  a kretprobe                                                              R
 *   n  ops INDEX on gcd()'s site at ADDRESS, with a callback that calls lcm(), which calls gcd()
 *   x  call int_sqrt()
 *   z  the same, when FLAGS is what the bytes are below on the stack
 *   y  call lcm(), and have it called as often again, each in the one before: FLAGS times
 *
 * It says how often handlers were called since the last registration, how many calls all fprobes say that they missed, and at how
 * many returns the code segment was not 0 or the function another one; then the first stack trace that was taken since, a function in
 * a line.
 */
#include "layout.h"

typedef unsigned long u64;
/* By their names a kernel with CFI knows the types of what it calls. */
struct ftrace_ops;
struct ftrace_regs;
struct fprobe;
struct kprobe;
struct kretprobe_instance;
struct kernel_param;
struct pt_regs;
enum { MAX = 12, MAX_STACK = 32, ENOSYS = 38, EINVAL = 22 };
enum { RETURN = 1, CALLS = 2, SEGMENTS = 4, ENTRY = 8, DECLINES = 16, PLACES = 32, DATA_SHIFT = 8 };
enum { FIRST_BYTES = 32 }; /* of a function, with its patch site */

#define STRINGS(x) #x
#define STRING(x) STRINGS(x)
/* A member of one of the kernel's structs. */
#define AT(where, offset, type) (*(type *)((char *)(where) + (offset)))

/* struct module, of which the loader wants the name and how to start. */
asm(".pushsection .gnu.linkonce.this_module, \"aw\"\n"
    ".balign 64\n"
    ".globl __this_module\n"
    "__this_module:\n"
    ".org " STRING(MODULE_NAME) "\n.asciz \"tramplab\"\n"
    ".org " STRING(MODULE_INIT) "\n.quad start\n"
    ".org " STRING(MODULE_SIZE) "\n"
    ".popsection");
#define INFO(name, text) static const char name[] __attribute__((section(".modinfo"), used, aligned(1))) = text
INFO(license, "license=Dual MIT/GPL");
INFO(name, "name=tramplab");
#ifdef VERMAGIC
INFO(vermagic, "vermagic=" VERMAGIC);
#endif
/* A kernel that compares checksums of symbols wants this section; most take a symbol that is not in it as it is. */
static const struct {
	unsigned long crc;
	char name[64 - sizeof(unsigned long)];
} versions[1] __attribute__((section("__versions"), used, aligned(8))) = { { 0, "" } };
/* Sections in which loaders want to put jumps of their own. */
#define SECTION(name) ".pushsection " name ", \"ax\"\n.byte 0\n.popsection\n"
#if defined(__aarch64__)
asm(SECTION(".plt") SECTION(".init.plt") SECTION(".text.ftrace_trampoline") SECTION(".init.text.ftrace_trampoline"));
#elif defined(__riscv)
asm(SECTION(".plt") SECTION(".got") SECTION(".got.plt"));
#endif

int register_ftrace_function(void *ops);
int unregister_ftrace_function(void *ops);
int ftrace_set_filter_ip(void *ops, u64 ip, int remove, int reset);
unsigned int int_sqrt(u64 x);
u64 lcm(u64 a, u64 b);
unsigned int stack_trace_save(u64 *entries, unsigned int size, unsigned int skip);
int sprintf(char *to, const char *format, ...);

u64 called, odd;

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

int kprobe_handler(struct kprobe *p, struct pt_regs *regs)
{
	called++;
	return 0;
}

static u64 stack[MAX_STACK];
static unsigned int stacked;

int kretprobe_handler(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	called++;
	return 0;
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
