/* The same kernel, and a BPF trampoline, which the common trampoline goes to. Every hart executes FENCE.I before anything leads there. */
#define BARRIERS "flush_icache_all-1", "flush_icache_all-2", "flush_icache_all-3", "ftrace_sync_ipi", "synchronize_rcu_tasks", \
	"call_rcu_tasks-1", "percpu_ref_kill", "call_rcu_tasks-2"
#define FLUSH_CODE 0
#define FLUSH_LITERAL 1
#define FLUSH 2
#define TASKS 4
#define TASKS_BEFORE 5
#define REFERENCE 6
#define TASKS_BEHIND 7
#define SITE 0
#define TRAMPOLINE 1
#define PLACES 2
#define DIRECT_OPS BIT(A)
#define ALONE CALL
#define PARCELS
#include "../race.inc"

inline literal_written() { all_look_again(FLUSH_LITERAL) }
inline made_visible() { skip }
inline code_written() { all_look_again(FLUSH_CODE) }
inline ops_changed() { skip }	/* an IPI, with which memory is as it is without */
inline update_ends() { all_look_again(FLUSH) }

#include "../fexit.inc"
