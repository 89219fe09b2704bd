/*
 * arm64, v6.4 and later: BL or NOP behind MOV X9, LR, with the ops before the function. IC IVAU on one CPU reaches all
 * instruction caches, but a pipeline looks again only when its CPU takes an exception: an IPI, or some day any other.
 */
#define BARRIERS "ic-ivau+isb", "ftrace_sync_ipi", "synchronize_rcu_tasks"
#define IC_IVAU 0
#define IPI 1
#define TASKS 2
#define SITE 0
#define PLACES 1
#define BY_HAND
#define ITSELF
#include "../race.inc"

inline literal_written() { skip }
inline made_visible() { publishes(IC_IVAU, SITE) }
inline ops_changed() { all_look_again(IPI) }	/* function_trace_op, which nobody reads here, is said to all */
inline update_ends() { skip }
inline tasks(op) { tasks_leave(TASKS); gives_back(op) }

#include "../static_ops.inc"
