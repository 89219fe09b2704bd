/*
 * The same kernel, and a BPF trampoline in the reach of the site's BL. Its code is made visible, and an IPI has every CPU look again,
 * before anything leads there.
 */
#define BARRIERS "ic-ivau+isb-1", "kick_all_cpus_sync", "ic-ivau+isb-2", "ftrace_sync_ipi", "synchronize_rcu_tasks", \
	"call_rcu_tasks-1", "percpu_ref_kill", "call_rcu_tasks-2"
#define IC_CODE 0
#define KICK 1
#define IC_SITE 2
#define IPI 3
#define TASKS 4
#define TASKS_BEFORE 5
#define REFERENCE 6
#define TASKS_BEHIND 7
#define SITE 0
#define TRAMPOLINE 1
#define PLACES 2
#define DIRECT_OPS BIT(A)
#define NEAR
#define ALONE DIRECT
#define BY_HAND
#define ITSELF
#include "../race.inc"

inline literal_written() { skip }
inline made_visible() { publishes(IC_SITE, SITE) }
inline code_written() { publishes(IC_CODE, TRAMPOLINE); all_look_again(KICK) }
inline ops_changed() { all_look_again(IPI) }
inline update_ends() { skip }

#include "../fexit.inc"
