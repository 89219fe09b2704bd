/* The same kernel as in riscv64-call-ops.pml, and a direct call: the common trampoline goes there if the ops before the function has one. */
#define BARRIERS "flush_icache_all-1", "flush_icache_all-2", "ftrace_sync_ipi", "synchronize_rcu_tasks"
#define FLUSH_LITERAL 0
#define FLUSH 1
#define TASKS 3
#define SITE 0
#define PLACES 1
#define DIRECT_OPS BIT(A)
#define ALONE CALL
#define PARCELS
#include "../race.inc"

inline literal_written() { all_look_again(FLUSH_LITERAL) }
inline made_visible() { skip }
inline ops_changed() { skip }	/* an IPI, with which memory is as it is without */
inline update_ends() { all_look_again(FLUSH) }
inline tasks(op) { tasks_leave(TASKS); gives_back(op) }

#include "../direct_ops.inc"
