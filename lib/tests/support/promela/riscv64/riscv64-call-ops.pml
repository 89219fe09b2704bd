/*
 * riscv64, v6.16 and later: the AUIPC is there for good, and a JALR or a NOP behind it, with the ops before the function. A hart
 * looks again when it executes FENCE.I, which an IPI asks for behind the ops, though that is data, and once all sites are written. Other IPIs do
 * nothing for text.
 */
#define BARRIERS "flush_icache_all-1", "flush_icache_all-2", "ftrace_sync_ipi", "synchronize_rcu_tasks"
#define FLUSH_LITERAL 0
#define FLUSH 1
#define TASKS 3
#define SITE 0
#define PLACES 1
#define PARCELS
#include "../race.inc"

inline literal_written() { all_look_again(FLUSH_LITERAL) }
inline made_visible() { skip }
inline ops_changed() { skip }	/* an IPI, with which memory is as it is without */
inline update_ends() { all_look_again(FLUSH) }
inline tasks(op) { tasks_leave(TASKS); gives_back(op) }

#include "../static_ops.inc"
