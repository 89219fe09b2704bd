/* The same kernel, and a direct call out of a BL's reach: the common trampoline goes there if the ops before the function has one. */
#define BARRIERS "ic-ivau+isb", "ftrace_sync_ipi", "synchronize_rcu_tasks"
#define IC_IVAU 0
#define IPI 1
#define TASKS 2
#define SITE 0
#define PLACES 1
#define DIRECT_OPS BIT(A)
#define ALONE CALL
#define BY_HAND
#define ITSELF
#include "../race.inc"

inline literal_written() { skip }
inline made_visible() { publishes(IC_IVAU, SITE) }
inline ops_changed() { all_look_again(IPI) }
inline update_ends() { skip }
inline tasks(op) { tasks_leave(TASKS); gives_back(op) }

#include "../direct_ops.inc"
