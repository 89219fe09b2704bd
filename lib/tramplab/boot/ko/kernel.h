/* What the module knows of its kernel, and what all of its hooks have in common. */
#ifndef KO_KERNEL_H
#define KO_KERNEL_H

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
enum { MAX = 12, EINVAL = 22 };

#define STRINGS(x) #x
#define STRING(x) STRINGS(x)
/* A member of one of the kernel's structs. */
#define AT(where, offset, type) (*(type *)((char *)(where) + (offset)))

unsigned int int_sqrt(u64 x);
u64 lcm(u64 a, u64 b);

/* Calls of handlers, and those that were not as they should be. */
u64 called, odd;

#endif
