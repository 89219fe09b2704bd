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

struct ftrace_regs;
struct ftrace_ops;
struct lab_pcpu;
struct bpf_tramp_run_ctx;

typedef void (*ftrace_func_t)(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			      struct ftrace_regs *fregs);

/* One function in a hash; direct is the address a direct call goes to, if this is the table of direct calls. */
struct ftrace_func_entry {
	struct ftrace_func_entry *next;
	unsigned long ip;
	unsigned long direct;
};

/* A chained hash of function addresses with 1 << size_bits buckets; count 0 stands for "no restriction". */
struct ftrace_hash {
	unsigned long size_bits;
	struct ftrace_func_entry **buckets;
	unsigned long count;
};

struct ftrace_ops_hash {
	struct ftrace_hash *notrace_hash;
	struct ftrace_hash *filter_hash;
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

/* What an ops' private points at: the calls it has seen, and where its callback sends them, if it does. */
struct lab_private {
	unsigned long hits;
	unsigned long go_to;
};

struct task_struct {
	int preempt_count;
	int cpu;
	unsigned long trace_recursion;
	struct lab_pcpu *pcpu;
	struct bpf_tramp_run_ctx *bpf_ctx;
	int rcu_read_lock_nesting;
	int migration_disabled;
};

/* counts: what the kernel would allocate from per-CPU memory: counters of BPF programs and of trampoline images. */
struct lab_pcpu {
	struct task_struct *current_task;
	int preempt_count;
	int rcu_watching;
	int nr_pinned;
	int counts[LAB_NR_COUNTS];
};

#if defined(__x86_64__)
#include "asm_x86_64.h"
#elif defined(__aarch64__)
#include "asm_arm64.h"
#elif defined(__riscv)
#include "asm_riscv64.h"
#endif

#define barrier() asm volatile("" ::: "memory")
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Nested context in the preempt count: softirq bits 8-15, hardirq bits 16-19, NMI bits 20-23. */
#define SOFTIRQ_OFFSET (1 << 8)
#define HARDIRQ_MASK (0xf << 16)
#define NMI_MASK (0xf << 20)

static inline void preempt_disable_notrace(void)
{
	lab_preempt_count += 1;
	barrier();
}

static inline void preempt_enable_notrace(void)
{
	barrier();
	lab_preempt_count -= 1;
}

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
