/*
 * The same kernel as in arm64-call-ops.pml, and a direct call in the reach of the site's BL, which calls it itself while it is alone:
 * whoever does so read nothing of the ops before.
 */
#define BARRIERS "ic-ivau+isb", "ftrace_sync_ipi", "synchronize_rcu_tasks"
#define IC_IVAU 0
#define IPI 1
#define TASKS 2
#define SITE 0
#define PLACES 1
#define DIRECT_OPS BIT(A)
#define NEAR
#define ALONE DIRECT
#define BY_HAND
#define ITSELF
#include "../race.inc"

inline literal_written() { skip }
inline made_visible() { publishes(IC_IVAU, SITE) }
inline ops_changed() { all_look_again(IPI) }
inline update_ends() { skip }
inline tasks(op) { tasks_leave(TASKS); gives_back(op) }

#include "../direct_ops.inc"
