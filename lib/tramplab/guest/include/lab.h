/*
 * The lab kernel's shared types: ops, hashes, tasks, per-CPU data.
 *
 * Shapes and meanings follow the kernel's (names are the field's own); the code is the lab's. Python lays these
 * structures out in guest memory from the DWARF that this header gives rise to, and the assembly takes its offsets
 * from the same place, so nothing is typed twice.
 */
#ifndef LAB_H
#define LAB_H

#define LAB_NR_OPS 128
#define LAB_NR_COUNTS 255
#define LAB_NR_POKES 64
#define LAB_NR_CPUS 64
#define LAB_RETHOOK_STACK 2048
#define LAB_SHADOW_STACK 4096

struct ftrace_regs;
struct ftrace_ops;
struct lab_pcpu;
struct bpf_tramp_run_ctx;
struct rethook_node;
struct kprobe;

typedef void (*ftrace_func_t)(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			      struct ftrace_regs *fregs);

/* One function in a hash; direct is the address a direct call goes to, if this is the table of direct calls. */
struct ftrace_func_entry {
	struct ftrace_func_entry *next;
	unsigned long ip;
	unsigned long direct;
};

/*
 * A chained hash of function addresses with 1 << size_bits buckets; count 0 stands for "no restriction", unless functions of
 * modules that are not loaded yet are meant.
 */
struct ftrace_hash {
	unsigned long size_bits;
	struct ftrace_func_entry **buckets;
	unsigned long count;
	unsigned long flags;
};
#define FTRACE_HASH_FL_MOD 1

/* regex_lock: as large as the mutex that nobody takes on the way of a call; it is zeroed with the rest where one is copied. */
struct ftrace_ops_hash {
	struct ftrace_hash *notrace_hash;
	struct ftrace_hash *filter_hash;
	unsigned long regex_lock[4];
};

struct ftrace_ops {
	ftrace_func_t func;
	struct ftrace_ops *next;
	unsigned long flags;
	void *private;
	ftrace_func_t saved_func;
	struct ftrace_ops_hash *func_hash;
	unsigned long trampoline;
	unsigned long trampoline_size;
	unsigned long direct_call;
};

enum ftrace_ops_flags {
	FTRACE_OPS_FL_ENABLED		= 1 << 0,
	FTRACE_OPS_FL_DYNAMIC		= 1 << 1,
	FTRACE_OPS_FL_SAVE_REGS		= 1 << 2,
	FTRACE_OPS_FL_RECURSION		= 1 << 4,
	FTRACE_OPS_FL_STUB		= 1 << 5,
	FTRACE_OPS_FL_IPMODIFY		= 1 << 12,
	FTRACE_OPS_FL_RCU		= 1 << 14,
	FTRACE_OPS_FL_DIRECT		= 1 << 17,
};

struct lab_node {
	struct lab_node *next;
};

/*
 * What an ops' private points at: the calls it has seen, and where its callback sends them, if it does. Of a live patch what stands
 * for struct klp_ops and struct klp_func: func_stack, the replacements of the function, newest first, which are one here, and that
 * one's node; nop, whether the replacement is the function itself; transition, whether tasks are still moved to it.
 */
struct lab_private {
	unsigned long hits;
	unsigned long go_to;
	struct lab_node func_stack, stack_node;
	_Bool nop, transition;
};

/*
 * stack_canary: what functions with a buffer leave below their return address; first, where the compiler is told to look for it
 * (isa/). x86-64's is in a variable of all tasks, a kernel's in per-CPU data. cpus_ptr: the CPUs on which it may run, its own cpus_mask while nobody has narrowed them. no_resched: not zero while nobody waits for this CPU; behind the preempt count, so that arm64 sees both as one word. flags:
 * where riscv64 looks for the same. rethooks: the calls whose return is hooked, newest first; rethook_stack: where their nodes are
 * if not in a pool, bytes up to rethook_top. kretprobe_instances: such calls of kretprobes that are on no return hooks. ret_stack:
 * the shadow stack of the function graph tracer, words up to curr_ret_stack; what that tracer has of a task is further from its
 * beginning than the 2047 bytes that an offset of riscv64's loads reaches, as in a kernel.
 * patch_state: of live patching, whether this task still runs the function as it was (0) or not (1), while tasks are moved.
 * trap_a0 and what follows: where riscv64 has registers at the beginning of an exception; vector_flags: whether the task uses the
 * vector in the kernel; with what is unused a cache line, so that all else shares its lines with what it shares them with elsewhere.
 */
struct task_struct {
	unsigned long stack_canary;
	int preempt_count;
	int no_resched;
	unsigned long flags;
	unsigned long cpu;
	unsigned long trace_recursion;
	struct bpf_tramp_run_ctx *bpf_ctx;
	int rcu_read_lock_nesting;
	int rcu_read_unlock_special;
	unsigned short migration_disabled;
	signed char patch_state;
	unsigned long *cpus_ptr;
	unsigned long cpus_mask;
#ifdef __riscv
	unsigned long trap_a0, trap_a1, trap_sp, kernel_sp;
	unsigned long vector_flags, unused[3];
#endif
#ifdef CONFIG_FPROBE_ON_RETHOOK
	struct rethook_node *rethooks;
#endif
#ifdef CONFIG_RETHOOK_SHADOW
	unsigned long rethook_top;
	char rethook_stack[LAB_RETHOOK_STACK];
#endif
#ifdef CONFIG_FUNCTION_GRAPH_TRACER
	unsigned long shadow_stack[LAB_SHADOW_STACK / sizeof(long)];
	int curr_ret_stack, curr_ret_depth;
	unsigned long *ret_stack;
	int trace_overrun, tracing_graph_pause;
#endif
#if defined(CONFIG_RETHOOK) && !defined(CONFIG_FPROBE_ON_RETHOOK)
	struct rethook_node *rethooks;
#endif
#if defined(CONFIG_KRETPROBES) && !defined(CONFIG_KRETPROBE_ON_RETHOOK)
	struct kretprobe_instance *kretprobe_instances;
#endif
};

/*
 * counts: what the kernel would allocate from per-CPU memory: counters of BPF programs and of trampoline images. kprobe: the one that
 * is handled, how far, the state that comes back behind its copy, and the same of the one inside whose handler it was hit. nmi:
 * how deep this CPU is in exceptions, as RCU counts them.
 */
struct lab_pcpu {
	struct task_struct *current_task;
	int preempt_count;
	int rcu_watching;
	int nr_pinned;
	int counts[LAB_NR_COUNTS];
	struct kprobe *current_kprobe, *prev_kprobe;
	unsigned long kprobe_status, prev_kprobe_status, kprobe_saved_state;
	unsigned long kprobe_nhit;
	int bpf_prog_active;
	int rcu_urgent;
	long nmi_nesting;
	struct kprobe *kprobe_instance;
};

/* The data of each CPU. */
extern struct lab_pcpu *lab_percpu[LAB_NR_CPUS];
extern struct lab_pcpu lab_boot_pcpu;

#if defined(__x86_64__)
#include "asm_x86_64.h"
#elif defined(__aarch64__)
#include "asm_arm64.h"
#elif defined(__riscv)
#include "asm_riscv64.h"
#endif

#define lab_pcpu_int(offset) lab_pcpu_ptr(int, offset)

#define barrier() asm volatile("" ::: "memory")
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
/* Store a pointer after all that was written before, as one that others follow is. */
#define PUBLISH(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELEASE)
/* Something is not as it must be, and the kernel says so and goes on: WARN_ON_ONCE(), which is counted here each time. */
extern unsigned long lab_warnings;
void lab_warn(void) __attribute__((cold));
#define LAB_WARN() lab_warn()
/* The end, which is counted as well. */
extern unsigned long lab_panics;
void panic(void) __attribute__((cold, noreturn));

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define LAB_INLINED inline __attribute__((always_inline))

/* Nested context in the preempt count: softirq bits 8-15, hardirq bits 16-19, NMI bits 20-23. */
#define SOFTIRQ_OFFSET (1 << 8)
#define HARDIRQ_MASK (0xf << 16)
#define NMI_MASK (0xf << 20)

/* Gives way to whoever waits for this CPU. Nobody does, so it is not called: boot says so to each count. */
void preempt_schedule_notrace(void);

/* A kernel that is nowhere preempted does not count; where it is, the last section to end asks who waits. */
static inline void preempt_disable_notrace(void)
{
#ifdef CONFIG_PREEMPTION
	lab_preempt_count += 1;
#endif
	barrier();
}

static inline void preempt_enable_notrace(void)
{
	barrier();
#ifdef CONFIG_PREEMPTION
	if (unlikely(lab_preempt_count_ends()))
		preempt_schedule_notrace();
#endif
}

/* How deep is this context: 0 normal, 1 softirq, 2 hardirq, 3 NMI? */
static inline unsigned char lab_context_level(void)
{
	unsigned int count = lab_preempt_count;
	unsigned char level = 0;

	level += !!(count & NMI_MASK);
	level += !!(count & (NMI_MASK | HARDIRQ_MASK));
	level += !!(count & (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_OFFSET));
	return level;
}

/* The idle site of a key that is off, and that of a traced function of the kernel's own, which C has behind the prologue. */
#define KEY_IS_OFF() asm volatile(LAB_NOP ::: "memory")
#define IDLE_SITE() asm volatile(LAB_IDLE_SITE ::: LAB_IDLE_SITE_CLOBBERS)

extern struct ftrace_ops *ftrace_ops_list;
extern struct ftrace_ops ftrace_list_end;
extern struct ftrace_ops *function_trace_op;

void ftrace_ops_list_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs);
void ftrace_ops_assist_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			    struct ftrace_regs *fregs);
void call_direct_funcs(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs);
void ftrace_stub(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs);
_Bool rcu_is_watching(void);

#endif
